// Whose request it is: two requests share an operation only if every part of their scope is the same.
#include "gateway/identity/scope.hpp"

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "core/operation.hpp"

namespace once::gateway::scope_test {

// The parts of a request that a scope may look at.
struct Request {
  std::string method = "POST";
  std::string path = "/";
  std::optional<std::string> authorization = {};
  std::optional<std::string> organisation = {};
  std::optional<std::string> session = {};
  std::string key = "k";

  bool operator==(const Request&) const = default;

  std::string text() const {
    std::string all = method + " " + path + " HTTP/1.1\r\nHost: h\r\n";
    if (authorization) all += "Authorization: " + *authorization + "\r\n";
    if (organisation) all += "x-org-id:" + *organisation + "\r\n";
    if (session) all += "Cookie: a=b; session=" + *session + "; session2=x\r\n";
    return all + "\r\n";
  }
};

OperationId id_of(const Policy& policy, const Request& request) {
  static const OperationIds ids("secret");
  const std::string text = request.text();
  http::RequestHead head;
  const auto parsed = http::parse(text, http::HeadLimits(), head);
  EXPECT_EQ(parsed.parsed, http::Parsed::complete) << text;
  const ScopeParts scope(policy, head);
  EXPECT_EQ(scope.ambiguous(), nullptr);
  return ids.make(scope.parts(), request.key);
}

Policy with_scope(std::vector<ScopePart> parts) {
  Policy policy;
  policy.scope = std::move(parts);
  policy.caller = {{.kind = CallerSource::Kind::header, .name = "Authorization"},
                   {.kind = CallerSource::Kind::header, .name = "X-Org-Id"},
                   {.kind = CallerSource::Kind::cookie, .name = "session"}};
  return policy;
}

// Few values, many of which would run into each other if they were simply put together.
std::string drawn_word() {
  return *rc::gen::element<std::string>("", "a", "b", "aa", "ab", "given", "absent", "path", "POST");
}

Request drawn_request() {
  // An empty one is the same as none.
  const auto maybe = [] {
    const std::string word = *rc::gen::arbitrary<bool>() ? drawn_word() : "";
    return word.empty() ? std::nullopt : std::optional(word);
  };
  Request request;
  request.method = *rc::gen::element<std::string>("POST", "PUT");
  request.path = "/" + drawn_word();
  request.authorization = maybe();
  request.organisation = maybe();
  request.session = maybe();
  request.key = "k" + drawn_word();
  return request;
}

RC_GTEST_PROP(ScopeProperty, ids_are_the_same_if_and_only_if_every_part_is, ()) {
  const Policy policy = with_scope({ScopePart::caller, ScopePart::method, ScopePart::path});
  const Request one = drawn_request();
  Request two = drawn_request();
  if (*rc::gen::arbitrary<bool>()) two = one;
  RC_ASSERT((id_of(policy, one) == id_of(policy, two)) == (one == two));
}

RC_GTEST_PROP(ScopeProperty, what_is_not_in_the_scope_does_not_count, ()) {
  const Request one = drawn_request();
  const Request two = drawn_request();
  const auto caller = [](const Request& from) {
    return std::tuple(from.authorization, from.organisation, from.session);
  };
  const auto same = [&](std::vector<ScopePart> scope) {
    const Policy policy = with_scope(std::move(scope));
    return id_of(policy, one) == id_of(policy, two);
  };
  const bool same_key = one.key == two.key;
  RC_ASSERT(same({}) == same_key);
  RC_ASSERT(same({ScopePart::caller}) == (same_key && caller(one) == caller(two)));
  RC_ASSERT(same({ScopePart::path}) == (same_key && one.path == two.path));
  RC_ASSERT(same({ScopePart::method}) == (same_key && one.method == two.method));
}

// So a route can be given lives without forgetting its keys.
TEST(ScopeTest, a_life_is_no_part_of_the_id) {
  EXPECT_EQ(id_of(with_scope({ScopePart::path, ScopePart::life}), Request()),
            id_of(with_scope({ScopePart::path}), Request()));
}

// A proxy may drop an empty field between two tries.
TEST(ScopeTest, an_empty_value_is_the_same_as_none) {
  const Policy policy = with_scope({ScopePart::caller});
  const Request absent;
  for (const std::string_view value : {"", "\"\"", "\" \"", "Bearer", "bearer ", "Basic \"\""}) {
    Request empty;
    empty.authorization = value;
    EXPECT_EQ(id_of(policy, absent), id_of(policy, empty)) << value;
  }
  Request empty;
  empty.session = "";
  EXPECT_EQ(id_of(policy, absent), id_of(policy, empty));
}

TEST(ScopeTest, one_value_in_two_places_is_not_the_same_caller) {
  const Policy policy = with_scope({ScopePart::caller});
  Request one;
  one.authorization = "x";
  Request two;
  two.organisation = "x";
  Request three;
  three.session = "x";
  EXPECT_NE(id_of(policy, one), id_of(policy, two));
  EXPECT_NE(id_of(policy, two), id_of(policy, three));
}

TEST(ScopeTest, the_query_is_not_part_of_the_path_but_case_and_escapes_are) {
  const Policy policy = with_scope({ScopePart::path});
  const auto id = [&](std::string path) {
    Request request;
    request.path = std::move(path);
    return id_of(policy, request);
  };
  EXPECT_EQ(id("/a"), id("/a?b=c"));
  EXPECT_NE(id("/a"), id("/A"));
  EXPECT_NE(id("/a"), id("/%61"));
  EXPECT_NE(id("/a"), id("/a/"));
}

TEST(ScopeTest, a_caller_that_is_named_twice_is_ambiguous) {
  const Policy policy = with_scope({ScopePart::caller});
  struct Case {
    std::string_view fields;
    bool ambiguous;
  };
  for (const auto& [fields, ambiguous] :
       {Case{"Authorization: a\r\n", false}, Case{"Authorization: a\r\nauthorization: a\r\n", true},
        Case{"X-Org-Id: a\r\nX-Org-Id: b\r\n", true}, Case{"Cookie: session=a\r\nCookie: session=b\r\n", true},
        Case{"Cookie: session=a; session=a\r\n", true}, Case{"Cookie: a=b\r\nCookie: session=a\r\n", false},
        Case{"X-Other: a\r\nX-Other: b\r\n", false}}) {
    const std::string text = std::string("POST / HTTP/1.1\r\nHost: h\r\n").append(fields).append("\r\n");
    http::RequestHead head;
    ASSERT_EQ(http::parse(text, http::HeadLimits(), head).parsed, http::Parsed::complete);
    EXPECT_EQ(ScopeParts(policy, head).ambiguous() != nullptr, ambiguous) << fields;
  }
}

TEST(ScopeTest, as_many_sources_as_config_allows) {
  Policy policy;
  policy.scope = {ScopePart::caller, ScopePart::method, ScopePart::path};
  policy.caller.clear();
  for (std::size_t i = 0; i < max_caller_sources; ++i) {
    policy.caller.push_back({.kind = CallerSource::Kind::header, .name = "X-" + std::to_string(i)});
  }
  const std::string text = "POST /p HTTP/1.1\r\nHost: h\r\nX-7: last\r\n\r\n";
  http::RequestHead head;
  ASSERT_EQ(http::parse(text, http::HeadLimits(), head).parsed, http::Parsed::complete);
  const auto parts = ScopeParts(policy, head);
  EXPECT_EQ(parts.parts().size(), 4 + 1 + 4 * max_caller_sources + 4);
  EXPECT_EQ(parts.parts()[4 + 4 * max_caller_sources], "last");
}

struct Cookie {
  std::string_view header;
  std::size_t count;
  std::string_view value;
};

TEST(FindCookie, cookies_as_clients_send_them) {
  for (const auto& [header, count, value] :
       {Cookie{"s=1", 1, "1"}, Cookie{"a=b; s=1", 1, "1"}, Cookie{"a=b;s=1;c=d", 1, "1"}, Cookie{" s=1 ; a=b", 1, "1"},
        Cookie{"s=", 1, ""}, Cookie{"s=a=b==", 1, "a=b=="}, Cookie{"s=\"q\"", 1, "\"q\""}, Cookie{"s=1; s=2", 2, "2"},
        Cookie{"", 0, ""}, Cookie{";;; ;", 0, ""}, Cookie{"s", 0, ""}, Cookie{"S=1", 0, ""},
        Cookie{"ss=1; as=2; s2=3", 0, ""}, Cookie{"a=s=1", 0, ""}, Cookie{"a=\"; s=1\"", 1, "1\""}}) {
    FoundSource found;
    find_cookie(header, "s", found);
    EXPECT_EQ(found.count, count) << header;
    EXPECT_EQ(found.value, value) << header;
  }
}

}  // namespace once::gateway::scope_test
