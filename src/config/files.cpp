// Checks what settings refer to outside of the configuration: files, folders, and secrets in files or in the
// environment.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/descriptor.hpp"
#include "config/findings.hpp"
#include "config/jwt_keys.hpp"
#include "config/secret.hpp"
#include "gateway/identity/routes.hpp"
#include "http/tls_context.hpp"
#include "store/catalog/catalog.hpp"
#include "store/server/store_url.hpp"

namespace once::config {

namespace {

void take_secret(std::expected<Secret, std::string> read, std::string_view setting, std::string& into, Findings& out) {
  if (!read) {
    out.error({setting}, fmt::format("{}: {}", setting, read.error()));
    return;
  }
  if (!read->warning.empty()) out.warning({setting}, std::move(read->warning));
  into = std::move(read->bytes);
}

// Whether all of the files can be read; reports those that cannot with their setting. Does not open them: a pipe can
// be read only once.
bool can_read(std::string_view setting, std::span<const std::string> files, Findings& out) {
  bool all = true;
  for (const std::string& file : files) {
    if (file.empty() || ::faccessat(AT_FDCWD, file.c_str(), R_OK, AT_EACCESS) == 0) continue;
    out.error({setting}, fmt::format("{}: cannot read {}: {}", setting, file, std::generic_category().message(errno)));
    all = false;
  }
  return all;
}

bool can_read_server_files(const http::TlsServerSettings& tls, Findings& out) {
  const bool certificates = can_read("tls.certificates", tls.certificates, out);
  const bool keys = can_read("tls.keys", tls.keys, out);
  const bool ca = can_read("tls.client_ca", {&tls.client_ca, 1}, out);
  const bool crl = can_read("tls.client_crl", {&tls.client_crl, 1}, out);
  return certificates && keys && ca && crl;
}

bool can_read_client_files(const http::TlsClientSettings& tls, Findings& out) {
  const bool ca = can_read("upstream_tls.ca", {&tls.ca, 1}, out);
  const bool certificate = can_read("upstream_tls.certificate", {&tls.certificate, 1}, out);
  const bool key = can_read("upstream_tls.key", {&tls.key, 1}, out);
  return ca && certificate && key;
}

void read_tls_files(const Config& config, Findings& out) {
  http::Warnings warnings;
  const auto report = [&](std::string_view group, std::string_view setting, const auto& made) {
    if (!made) out.error({setting}, fmt::format("{}: {}", group, made.error().detail));
    for (const std::string& warning : warnings) out.warning({setting}, fmt::format("{}: {}", group, warning));
    warnings.clear();
  };
  const bool serves = config.tls.listen != "off" && !config.tls.certificates.empty();
  if (serves && can_read_server_files(config.tls, out)) {
    const auto made = http::TlsServerContext::make(config.tls, warnings);
    const std::string& ca = config.tls.client_ca;
    report("tls", !made && !ca.empty() && made.error().detail.contains(ca) ? "tls.client_ca" : "tls.certificates",
           made);
  }
  if (!has_https(config.upstreams) || !can_read_client_files(config.upstream_tls, out)) return;
  const auto made = http::TlsClientContext::make(config.upstream_tls, warnings);
  const std::string& ca = config.upstream_tls.ca;
  const bool own = made || ca.empty() || !made.error().detail.contains(ca);
  report("upstream_tls", own ? "upstream_tls.certificate" : "upstream_tls.ca", made);
  if (!config.upstream_tls.verify) {
    out.warning({"upstream_tls.verify"},
                "upstream_tls.verify is no: an attacker on the network between Once and a backend can read and "
                "change everything");
  }
}

void read_claims_tokens(Config& config, Findings& out) {
  if (config.claims.listen == "off") return;
  std::vector<ClaimsToken>& tokens = config.claims.tokens;
  for (auto token = tokens.begin(); token != tokens.end(); ++token) {
    const std::string name = fmt::format("claims.tokens.{}", token->tenant);
    take_secret(read_secret(token->file), name, token->token, out);
    const auto twin = std::find_if(tokens.begin(), token,
                                   [&](const ClaimsToken& t) { return !t.token.empty() && t.token == token->token; });
    if (twin == token) continue;
    out.error({name}, fmt::format("claims.tokens: {} and {} have the same token", twin->tenant, token->tenant));
  }
}

std::string message_of(int error) {
  return std::generic_category().message(error);
}

// Why no file can be created in this existing folder; empty: it seems possible. Does not try.
std::string why_not_in(const std::string& folder) {
  struct statfs system{};
  if (::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0) return message_of(errno);
  const bool kernels =
      ::statfs(folder.c_str(), &system) == 0 && (system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC);
  return kernels ? message_of(EROFS) : "";  // only the kernel creates files there
}

// Why a folder can neither be used nor created, with its parents; empty: it can. Creates nothing.
std::string why_no_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(path, error).lexically_normal();
  for (; !error; at = at.parent_path()) {
    struct stat status{};
    if (::stat(at.c_str(), &status) == 0) {
      const std::string why = S_ISDIR(status.st_mode) ? why_not_in(at.string()) : message_of(ENOTDIR);
      return why.empty() ? "" : fmt::format("{}: {}", at.string(), why);
    }
    if ((errno != ENOENT && errno != ENOTDIR) || at == at.parent_path()) error.assign(errno, std::generic_category());
  }
  return fmt::format("{}: {}", path, error.message());
}

// Why a file cannot be opened for appending, as `serve` would; empty: it can. Creates nothing.
std::string why_no_file(const std::string& path, int flags) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode)) {
    // Opening and closing a pipe would signal the end to its reader.
    return ::access(path.c_str(), W_OK) == 0 ? "" : message_of(errno);
  }
  const Descriptor file(::open(path.c_str(), flags | O_APPEND | O_CLOEXEC | O_NONBLOCK));
  if (file.open()) return "";
  if (errno != ENOENT) return message_of(errno);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (::access(folder.empty() ? "." : folder.c_str(), F_OK) != 0) return message_of(errno);
  return why_not_in(folder.empty() ? "." : folder);
}

void check_store(const Config& config, Findings& out) {
  const StoreType* const type = find_store(config.store);
  if (type != nullptr && type->check != nullptr) {
    if (const auto fit = type->check(config.store); !fit) {
      out.error({"store"}, fmt::format("store: {}", fit.error().detail));
    }
  }
  if (type == nullptr || type->place != StorePlace::folder) return;
  if (const std::string why = why_no_folder(journal_folder(config)); !why.empty()) {
    out.error({"store", "data_dir"},
              fmt::format("store: the journal cannot be in {}: {}", journal_folder(config), why));
  }
}

void check_logs(const Config& config, Findings& out) {
  const std::string& audit = config.audit_log;
  const std::string& access = config.log.access_file;
  struct stat status{};
  if (config.admin != "off" && !audit.empty()) {
    if (::stat(audit.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
      out.error({"audit_log"}, fmt::format("audit_log: {} is not a regular file", audit));
    } else if (const std::string why = why_no_file(audit, O_RDWR); !why.empty()) {
      out.error({"audit_log"}, fmt::format("audit_log: {}: {}", audit, why));
    }
  }
  if (config.log.access && !access.empty()) {
    if (const std::string why = why_no_file(access, O_WRONLY); !why.empty()) {
      out.error({"log.access_file"}, fmt::format("log.access_file: {}: {}", access, why));
    }
  }
  std::error_code ignored;
  const auto real = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
  };
  const bool both = config.admin != "off" && config.log.access && !audit.empty() && !access.empty();
  if (both && (real(audit) == real(access) || std::filesystem::equivalent(audit, access, ignored))) {
    out.error({"audit_log", "log.access_file"}, fmt::format("audit_log and log.access_file are both {}", audit));
  }
}

void read_jwt_keys(Config& config, Findings& out) {
  ConfigErrors warnings;
  auto verifier = make_verifier(config, warnings);
  const auto setting = [](std::string_view text) {
    return text.starts_with("jwt.secrets") ? "jwt.secrets" : "jwt.keys";
  };
  for (ConfigError& warning : warnings) out.warning({setting(warning.text)}, std::move(warning.text));
  if (verifier) {
    config.jwt.verifier = *std::move(verifier);
  } else {
    out.error({setting(verifier.error())}, verifier.error());
  }
}

}  // namespace

std::string journal_folder(const Config& config) {
  constexpr std::string_view prefix = "journal:";
  const std::string given = config.store.substr(prefix.size());
  return given.empty() ? config.data_dir + "/journal" : given;
}

StoreSettings store_settings(const Config& config) {
  return {.memory = {.max_bytes = config.memory.max_bytes},
          .journal = config.journal,
          .folder = config.data_dir + "/journal",
          .server = config.server,
          .sealing_secrets = config.sealing_secrets};
}

Checked read_files(Config& config) {
  Findings out(config);
  check_store(config, out);
  check_logs(config, out);
  read_tls_files(config, out);
  read_claims_tokens(config, out);
  read_jwt_keys(config, out);
  config.sealing_secrets.clear();
  for (const std::string& path : config.encryption_keys) {
    take_secret(read_secret(path), "encryption.keys", config.sealing_secrets.emplace_back(), out);
  }
  return out.take();
}

Checked check_spool(Config& config, const Environ& environ) {
  Findings out(config);
  const std::string& given = config.limits.spool_directory;
  config.spool_folder = given;
  if (given.empty()) config.spool_folder = environ("TMPDIR").value_or("");
  if (config.spool_folder.empty()) config.spool_folder = "/var/tmp";
  const bool used = std::ranges::any_of(
      config.routes, [](const Route& route) { return route.policy.max_large_request > route.policy.max_request_body; });
  if (!used) return out.take();
  struct stat status{};
  const bool folder = ::stat(config.spool_folder.c_str(), &status) == 0;
  std::string why = folder ? why_not_in(config.spool_folder) : message_of(errno);
  if (folder && !S_ISDIR(status.st_mode)) why = message_of(ENOTDIR);
  if (why.empty()) return out.take();
  if (!given.empty()) {
    out.error({"limits.spool_directory"}, fmt::format("limits.spool_directory: {}: {}", given, why));
  } else {
    out.warning(
        {"limits.spool_directory"},
        fmt::format("{}: {}: keyed requests larger than max_request_body get 503; set limits.spool_directory to "
                    "a folder that can be written, or max_large_request to 0",
                    config.spool_folder, why));
  }
  return out.take();
}

Checked check_secrets(Config& config, const Environ& environ) {
  Findings out(config);
  take_secret(resolve_secret(config.admin_token, environ), "admin_token", config.admin_token_secret, out);
  const auto secret = given_secret(config, environ);
  if (secret) config.secret = secret->bytes;
  if (!secret) {
    out.error({"secret_file"}, secret.error());
  } else if (secret->bytes.empty() && !secret->warning.empty()) {  // serve would refuse to start without a secret
    out.error({"store", "environment"}, secret->warning);
  } else if (!secret->warning.empty()) {
    out.warning({"secret_file"}, secret->warning);
  } else if (const std::string why = why_no_folder(config.data_dir); secret->bytes.empty() && !why.empty()) {
    out.error({"data_dir"}, fmt::format("data_dir: the secret cannot be written there: {}", why));
  }
  return out.take();
}

}  // namespace once::config
