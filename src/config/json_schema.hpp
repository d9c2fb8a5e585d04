// Writes the settings tables as a JSON schema (draft 2020-12), for editors and for pipelines that check files without
// Once. It describes a file as YAML 1.2. Only `once check` checks relations between settings (a lease shorter than
// its ttl).
#pragma once

#include <string>

#include "base/layers.hpp"

namespace once::config {

// docs/reference/once.schema.json
std::string json_schema();

}  // namespace once::config
