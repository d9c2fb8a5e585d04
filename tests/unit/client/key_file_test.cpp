// The key on disk: what a process that is started again finds, whatever the first one was doing when it died.
#include "client/key_file.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/support/temporary_folder.hpp"

namespace once::client::key_file_test {

KeyRecord record(const std::string& key) {
  return {.key = key, .request = request_digest({.url = "http://x/", .body = "b"}), .created = Time(Duration(1234))};
}

class ClientKeyFile : public testing::Test {
 protected:
  std::string path() const { return folder_.path() + "/key"; }
  void write(const std::string& text) const { std::ofstream(path()) << text; }
  std::string text() const {
    std::ifstream file(path());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::ptrdiff_t files() const {
    return std::distance(std::filesystem::directory_iterator(folder_.path()), std::filesystem::directory_iterator());
  }

  // Runs `work` in a process that dies right after that step; false if it never came to it.
  static bool dies_after(const std::string& step, const std::function<void(KeyFile::AfterStep)>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      work([&step](std::string_view name) {
        if (name == step) ::_exit(77);
      });
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 77;
  }

  TemporaryFolder folder_;
};

TEST_F(ClientKeyFile, is_as_the_page_describes_it) {
  ASSERT_EQ(KeyFile(path()).open(record("k-1")), record("k-1"));
  EXPECT_EQ(text(), "once-key 1\nkey k-1\nrequest " + record("").request + "\ncreated 1234\nstate pending\n");
  EXPECT_EQ(files(), 1) << "nothing is left beside it";
  EXPECT_EQ(std::filesystem::status(path()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(ClientKeyFile, a_file_that_is_only_read_must_be_there) {
  EXPECT_EQ(KeyFile(path()).read(), std::unexpected("there is no key file " + path()));
  EXPECT_EQ(files(), 0);
  ASSERT_TRUE(KeyFile(path()).open(record("k-1")));
  EXPECT_EQ(KeyFile(path()).read(), record("k-1"));
}

TEST_F(ClientKeyFile, second_process_gets_the_first_ones_key) {
  ASSERT_TRUE(KeyFile(path()).open(record("first")));
  EXPECT_EQ(KeyFile(path()).open(record("second")), record("first"));
}

TEST_F(ClientKeyFile, of_many_at_once_all_get_the_same_key) {
  std::vector<std::string> keys(8);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      threads.emplace_back([&, i] { keys[i] = KeyFile(path()).open(record(std::to_string(i))).value().key; });
    }
  }
  for (const std::string& key : keys) EXPECT_EQ(key, keys[0]);
  EXPECT_EQ(files(), 1);
}

TEST_F(ClientKeyFile, done_keeps_the_key) {
  KeyFile file(path());
  ASSERT_TRUE(file.open(record("k")));
  ASSERT_TRUE(file.mark_done(record("k")));
  const auto again = KeyFile(path()).open(record("other"));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->key, "k");
  EXPECT_EQ(again->state, KeyRecord::State::done);
  EXPECT_EQ(files(), 1);
}

TEST_F(ClientKeyFile, removed_is_gone) {
  KeyFile file(path());
  ASSERT_TRUE(file.open(record("k")));
  ASSERT_TRUE(file.remove());
  EXPECT_EQ(files(), 0);
}

TEST_F(ClientKeyFile, crash_before_it_has_its_name_leaves_no_key) {
  for (const char* step : {"made", "written", "synced"}) {
    SCOPED_TRACE(step);
    ASSERT_TRUE(dies_after(step, [&](auto after) { static_cast<void>(KeyFile(path(), after).open(record("dead"))); }));
    EXPECT_FALSE(std::filesystem::exists(path())) << "half a key file would be taken for damage";
  }
  EXPECT_EQ(KeyFile(path()).open(record("next")), record("next"));
}

TEST_F(ClientKeyFile, crash_after_it_has_its_name_leaves_the_key_to_resume_with) {
  for (const char* step : {"named", "folder synced"}) {
    SCOPED_TRACE(step);
    ASSERT_TRUE(dies_after(step, [&](auto after) { static_cast<void>(KeyFile(path(), after).open(record("dead"))); }));
    EXPECT_EQ(KeyFile(path()).open(record("next")), record("dead"));
    std::filesystem::remove(path());
  }
}

TEST_F(ClientKeyFile, crash_while_it_is_marked_done_leaves_it_pending_or_done_with_the_same_key) {
  using State = KeyRecord::State;
  for (const auto& [step, state] : {std::pair("made", State::pending), std::pair("written", State::pending),
                                    std::pair("synced", State::pending), std::pair("renamed", State::done)}) {
    SCOPED_TRACE(step);
    std::filesystem::remove(path());
    ASSERT_TRUE(KeyFile(path()).open(record("k")));
    ASSERT_TRUE(
        dies_after(step, [&](auto after) { static_cast<void>(KeyFile(path(), after).mark_done(record("k"))); }));
    const auto found = KeyFile(path()).open(record("next"));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->key, "k");
    EXPECT_EQ(found->state, state);
  }
}

TEST_F(ClientKeyFile, what_is_not_a_whole_key_file_is_refused_and_left_alone) {
  const std::string good = format_key_record(record("k"));
  for (const std::string& bad : {std::string(), std::string("hello\n"), good.substr(0, good.size() - 3), good + good,
                                 "once-key 2" + good.substr(10), good.substr(0, 11) + "key \n" + good.substr(17)}) {
    SCOPED_TRACE(bad);
    write(bad);
    const auto opened = KeyFile(path()).open(record("new"));
    ASSERT_FALSE(opened);
    EXPECT_TRUE(opened.error().contains(path())) << opened.error();
    EXPECT_EQ(text(), bad);
  }
}

TEST_F(ClientKeyFile, folder_that_is_not_there_is_an_error) {
  EXPECT_FALSE(KeyFile(folder_.path() + "/no/key").open(record("k")));
}

TEST(ClientRequestDigest, tells_method_url_and_body_apart) {
  const Request base{.method = "POST", .url = "http://x/a", .body = "b"};
  EXPECT_EQ(request_digest(base), request_digest({.method = "POST", .url = "http://x/a", .body = "b"}));
  EXPECT_NE(request_digest(base), request_digest({.method = "PATCH", .url = "http://x/a", .body = "b"}));
  EXPECT_NE(request_digest(base), request_digest({.method = "POST", .url = "http://x/ab", .body = ""}));
  EXPECT_NE(request_digest(base), request_digest({.method = "POST", .url = "http://x/a", .body = "c"}));
  EXPECT_EQ(request_digest(base),
            request_digest({.method = "POST", .url = "http://x/a", .headers = {{"Authorization", "new"}}, .body = "b"}))
      << "a token may be new in another process";
}

}  // namespace once::client::key_file_test
