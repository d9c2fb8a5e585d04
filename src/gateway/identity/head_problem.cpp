#include "gateway/identity/head_problem.hpp"

namespace once::gateway {

Problem head_problem(http::HeadError error) {
  using http::HeadError;
  switch (error) {
    case HeadError::target_too_long: return problem(ProblemKind::uri_too_long, describe(error));
    case HeadError::too_large:
    case HeadError::too_many_fields: return problem(ProblemKind::headers_too_large, describe(error));
    case HeadError::bad_version: {
      Problem answer = problem(ProblemKind::bad_request, describe(error));
      answer.status = 505;
      return answer;
    }
    case HeadError::unsupported_coding:
    case HeadError::unsupported_method: {
      Problem answer = problem(ProblemKind::bad_request, describe(error));
      answer.status = 501;
      return answer;
    }
    case HeadError::bad_request_line:
    case HeadError::bad_field:
    case HeadError::bad_host:
    case HeadError::bad_framing:
    case HeadError::bad_status_line: break;
  }
  return problem(ProblemKind::bad_request, describe(error));
}

}  // namespace once::gateway
