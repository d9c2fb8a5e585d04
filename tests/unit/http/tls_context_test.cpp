// What TLS is made of: files that can be used, files that cannot, and what is said of each.
#include "http/tls_context.hpp"

#include <gmock/gmock.h>

#include "tests/unit/http/certificates.hpp"

namespace once::http::tls_context_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TlsContext : public testing::Test {
 protected:
  TlsContext() {
    certificates.make({.name = "a", .alt_names = "DNS:a.test"});
    certificates.make({.name = "b", .alt_names = "DNS:b.test"});
  }

  std::string error_of(const TlsServerSettings& settings) {
    const auto made = TlsServerContext::make(settings, warnings);
    return made ? "" : made.error().detail;
  }
  std::string error_of(const TlsClientSettings& settings) {
    const auto made = TlsClientContext::make(settings, warnings);
    return made ? "" : made.error().detail;
  }
  TlsServerSettings with(std::vector<std::string> shown, std::vector<std::string> keys) const {
    TlsServerSettings settings;
    for (const std::string& name : shown) settings.certificates.push_back(certificates.path(name));
    for (const std::string& name : keys) settings.keys.push_back(certificates.path(name));
    return settings;
  }

  Certificates certificates;
  Warnings warnings;
};

TEST_F(TlsContext, keys_are_found_in_any_order_and_beside_their_certificate) {
  EXPECT_EQ(error_of(with({"a.pem", "b.pem"}, {"b.key", "a.key"})), "");
  std::string both;
  for (const char* file : {"a.key", "a.pem"}) {
    std::ifstream in(certificates.path(file));
    both.append(std::istreambuf_iterator<char>(in), {});
  }
  certificates.write_text("both.pem", both);
  ::chmod(certificates.path("both.pem").c_str(), S_IRUSR | S_IWUSR);
  EXPECT_EQ(error_of(with({"both.pem"}, {})), "");
  EXPECT_THAT(warnings, IsEmpty());
}

TEST_F(TlsContext, what_is_wrong_is_said_with_the_file) {
  certificates.write_text("empty.pem", "");
  certificates.write_text("half.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n");
  certificates.write_text("locked.key",
                          "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n");
  EXPECT_THAT(error_of(with({"none.pem"}, {"a.key"})), HasSubstr("none.pem: No such file or directory"));
  EXPECT_THAT(error_of(with({"empty.pem"}, {"a.key"})), HasSubstr("there is no PEM certificate in"));
  EXPECT_THAT(error_of(with({"half.pem"}, {"a.key"})), HasSubstr("half.pem"));
  EXPECT_THAT(error_of(with({"a.pem"}, {"b.key"})), HasSubstr("no key matches the certificate in"));
  EXPECT_THAT(error_of(with({"a.pem"}, {})), HasSubstr("there is no PEM private key in"));
  EXPECT_THAT(error_of(with({"a.pem"}, {"locked.key"})), HasSubstr("locked.key"));
  TlsServerSettings settings = with({"a.pem"}, {"a.key"});
  settings.client_ca = certificates.path("empty.pem");
  EXPECT_THAT(error_of(settings), HasSubstr("there are no trusted certificates in"));
  TlsClientSettings client;
  client.ca = certificates.path("none.pem");
  EXPECT_EQ(error_of(client), "cannot read " + client.ca + ": No such file or directory");
  client.ca = certificates.path("a.key");
  EXPECT_EQ(error_of(client),
            "there are no trusted certificates in " + client.ca + ": expected certificates in PEM format");
  client.ca = certificates.path("ca.pem");
  client.certificate = certificates.path("a.pem");
  client.key = certificates.path("b.key");
  EXPECT_THAT(error_of(client), HasSubstr("does not match the certificate in"));
}

TEST_F(TlsContext, an_expired_certificate_and_an_open_key_are_warnings) {
  certificates.make({.name = "old", .alt_names = "", .valid_from = -7200, .valid_until = -3600});
  ::chmod(certificates.path("old.key").c_str(), S_IRUSR | S_IWUSR | S_IROTH);
  EXPECT_EQ(error_of(with({"old.pem"}, {"old.key"})), "");
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("other users can read the key in"), HasSubstr(" expired on ")));
}

TEST_F(TlsContext, it_is_known_when_each_certificate_expires) {
  certificates.make({.name = "later", .alt_names = "", .valid_until = 400L * 86'400});
  const auto made = TlsServerContext::make(with({"a.pem", "later.pem"}, {"a.key", "later.key"}), warnings);
  ASSERT_TRUE(made.has_value());
  const auto& shown = (*made)->certificates();
  ASSERT_EQ(shown.size(), 2U);
  EXPECT_EQ(shown[0].file, certificates.path("a.pem"));
  EXPECT_EQ(shown[1].file, certificates.path("later.pem"));
  // They were made a moment after each other.
  const auto apart = shown[1].expires - shown[0].expires;
  EXPECT_GE(apart, std::chrono::days(400) - std::chrono::hours(1));
  EXPECT_LE(apart, std::chrono::days(400) - std::chrono::hours(1) + std::chrono::minutes(5));
}

TEST(TlsNames, a_wildcard_stands_for_one_label) {
  EXPECT_TRUE(name_fits("a.test", "A.test"));
  EXPECT_TRUE(name_fits("*.a.test", "x.a.test"));
  EXPECT_FALSE(name_fits("*.a.test", "a.test"));
  EXPECT_FALSE(name_fits("*.a.test", ".a.test"));
  EXPECT_FALSE(name_fits("*.a.test", "x.y.a.test"));
  EXPECT_FALSE(name_fits("a.test", "b.test"));
}

}  // namespace once::http::tls_context_test
