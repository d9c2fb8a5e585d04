// Distinguishes an untrusted certificate from other network errors: nothing was sent, and a retry would get the same certificate.

const CODES = /^(CERT_|ERR_TLS_CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_(GET_ISSUER|VERIFY))/;

export interface NotTrustedError extends Error {
  notTrusted: true;
  code: string;
}

export function isNotTrusted(error: unknown): error is NotTrustedError {
  return error instanceof Error && (error as Partial<NotTrustedError>).notTrusted === true;
}

/** The error to report if the certificate of this URL was not accepted. */
export function distrust(error: unknown, url: string | URL): NotTrustedError | undefined {
  const { code: own, cause } = (error ?? {}) as { code?: string; cause?: { code?: string } };
  const code = cause?.code ?? own ?? "";
  if (!CODES.test(code)) return undefined;
  const { origin } = new URL(url, globalThis.location?.href);
  const message = `the certificate of ${origin} is not trusted (${code}): nothing was sent. ` +
    "Name the file of its authority in NODE_EXTRA_CA_CERTS before Node starts, or pass your own fetch";
  return Object.assign(new Error(message, { cause: error }), { notTrusted: true as const, code });
}
