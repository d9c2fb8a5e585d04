// The arguments of the C interface, checked and copied.
#pragma once

#include <cstddef>
#include <cstring>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include <once/gate.hpp>
#include <once/guard.hpp>
#include <once/once.h>

namespace once::abi {

// Why an argument is invalid, for once_last_error().
using Mistake = std::string_view;

std::string text_of(once_bytes bytes);
std::expected<gate::Options, Mistake> options_of(const once_options* options);
std::expected<gate::Request, Mistake> request_of(const once_request* request, bool with_body);
std::expected<gate::Response, Mistake> response_of(const once_response* response);
std::expected<guard::Request, Mistake> work_of(const once_work* work);
std::expected<std::vector<std::string>, Mistake> names_of(const once_bytes* names, std::size_t count);

}  // namespace once::abi
