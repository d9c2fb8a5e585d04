// A server that wants to know who its clients are: the client proves it with a certificate.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <once/client.hpp>
#include <openssl/ssl.h>

#include "tests/unit/http/certificates.hpp"

namespace once::client::client_certificate_test {

// Answers one connection with the name in the client's certificate; without one the handshake fails.
class OneAnswer {
 public:
  explicit OneAnswer(const http::Certificates& files) : context_(SSL_CTX_new(TLS_server_method())) {
    SSL_CTX_use_certificate_file(context_, files.path("server.pem").c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context_, files.path("server.key").c_str(), SSL_FILETYPE_PEM);
    SSL_CTX_load_verify_file(context_, files.path("ca.pem").c_str());
    SSL_CTX_set_verify(context_, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    SSL_CTX_set_max_proto_version(context_, TLS1_2_VERSION);  // a refusal comes before the request is sent
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof address;
    ::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size);
    ::listen(socket_, 1);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    url_ = "https://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/";
    thread_ = std::thread([this] { answer(); });
  }
  ~OneAnswer() {
    ::shutdown(socket_, SHUT_RDWR);  // if nobody came
    thread_.join();
    ::close(socket_);
    SSL_CTX_free(context_);
  }
  OneAnswer(const OneAnswer&) = delete;
  OneAnswer& operator=(const OneAnswer&) = delete;

  const std::string& url() const { return url_; }

 private:
  void answer() {
    const int connection = ::accept(socket_, nullptr, nullptr);
    if (connection < 0) return;
    SSL* const tls = SSL_new(context_);
    SSL_set_fd(tls, connection);
    if (SSL_accept(tls) == 1) {
      std::array<char, 4096> request{};
      SSL_read(tls, request.data(), static_cast<int>(request.size()));
      std::array<char, 64> name{};
      X509_NAME_get_text_by_NID(X509_get_subject_name(SSL_get0_peer_certificate(tls)), NID_commonName, name.data(),
                                static_cast<int>(name.size()));
      const std::string body = name.data();
      const std::string text =
          "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" + body;
      SSL_write(tls, text.data(), static_cast<int>(text.size()));
      SSL_shutdown(tls);
    }
    SSL_free(tls);
    ::close(connection);
  }

  SSL_CTX* const context_;
  const int socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
  std::string url_;
  std::thread thread_;
};

class ClientCertificate : public testing::Test {
 protected:
  void SetUp() override {
    files_.make({.name = "server", .alt_names = "IP:127.0.0.1"});
    files_.make({.name = "worker-7", .alt_names = ""});
  }
  Options options() const {
    Options options;
    options.max_retries = 0;
    options.ca_file = files_.path("ca.pem");
    return options;
  }

  http::Certificates files_;
};

TEST_F(ClientCertificate, the_server_sees_who_it_is) {
  const OneAnswer server(files_);
  Options with = options();
  with.client_certificate = files_.path("worker-7.pem");
  with.client_certificate_key = files_.path("worker-7.key");
  const Result result = Client(with).send({.url = server.url()});
  ASSERT_EQ(result.stop_reason, StopReason::answered) << result.detail;
  EXPECT_EQ(result.answer->body, "worker-7");
}

TEST_F(ClientCertificate, without_one_nothing_is_sent) {
  const OneAnswer server(files_);
  const Result result = Client(options()).send({.url = server.url()});
  EXPECT_NE(result.stop_reason, StopReason::answered);
  EXPECT_EQ(result.work, Work::not_sent) << result.detail;
}

TEST_F(ClientCertificate, one_that_cannot_be_read_is_not_tried_again) {
  const OneAnswer server(files_);
  Options with = options();
  with.max_retries = 8;
  with.client_certificate = files_.path("nothing.pem");
  with.client_certificate_key = files_.path("nothing.key");
  const Result result = Client(with).send({.url = server.url()});
  EXPECT_EQ(result.stop_reason, StopReason::not_retried);
  EXPECT_EQ(result.happened, Happened::not_trusted) << result.detail;
  EXPECT_EQ(result.work, Work::not_sent);
}

TEST_F(ClientCertificate, certificate_and_key_come_together) {
  Options half = options();
  half.client_certificate = files_.path("worker-7.pem");
  const Result result = Client(half).send({.url = "https://127.0.0.1:1/"});
  EXPECT_EQ(result.stop_reason, StopReason::bad_request);
  EXPECT_EQ(result.detail, "a client certificate and its private key come together");
}

}  // namespace once::client::client_certificate_test
