// The tables as a JSON schema (draft 2020-12), for editors and for pipelines that check files without Once. It tells of
// a file as YAML 1.2 reads it; what belongs together (a lease shorter than its ttl) only `once check` knows.
#pragma once

#include <string>

namespace once {

// docs/once.schema.json
std::string json_schema();

}  // namespace once
