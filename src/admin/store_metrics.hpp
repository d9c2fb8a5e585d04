// What /metrics says of the store: what each kind counts by itself, and the lanes that lead to it.
#pragma once

namespace once {

class Exposition;
struct AdminSources;

void write_store_metrics(Exposition& out, const AdminSources& sources);

}  // namespace once
