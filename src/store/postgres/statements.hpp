// The store's statements, one for each step of a verb, each over arrays of operations. All of them are prepared on
// every connection.
//
// Ids are sorted, so that two gateways lock rows in the same order.
//
// SQL makes no decisions: a claim reads, core decides, and `take` writes only if the row has not changed.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/layers.hpp"

namespace once::postgres {

enum class Statement : std::uint8_t {
  claim,  // inserts missing rows, and reads the others
  seize,  // before a write that takes an operation from an owner whose lease has ended
  take,   // claims a row that was read, if it has not changed
  renew,
  finish,
  release,
  forget,
  resolve,
  wait,  // registers that a request waits for these operations
  read,
  hold,  // before an append, or an end that leaves the body in chunks
  append,
  read_chunks,  // read, and the chunks of the response
  sweep,
  hurry,  // later statements of the round wait only briefly for locks
  page,   // for operators: rows in the order of their ids, without outcomes
  count,  // counts the rows in each state instead
  // The same for one state, by a partial index.
  page_started,
  page_failed,
  page_unknown,
  count_started,
  count_failed,
  count_unknown,
  estimate,  // the number of rows, without reading them
};

inline constexpr std::array all_statements = {
    Statement::claim,         Statement::seize,        Statement::take,          Statement::renew,
    Statement::finish,        Statement::release,      Statement::forget,        Statement::resolve,
    Statement::wait,          Statement::read,         Statement::hold,          Statement::append,
    Statement::read_chunks,   Statement::sweep,        Statement::hurry,         Statement::page,
    Statement::count,         Statement::page_started, Statement::page_failed,   Statement::page_unknown,
    Statement::count_started, Statement::count_failed, Statement::count_unknown, Statement::estimate};

// How a write treats rows that another transaction may hold: a backend locks a row until its own transaction ends,
// which must not delay the rest of the batch.
enum class Locked : std::uint8_t {
  unlikely,  // skips rows that were locked since their last write, even if that was rolled back
  skip,      // tries to lock every row, and skips those that are locked
  wait,      // as long as lock_timeout says
};

// The name of the prepared statement.
const char* name_of(Statement statement);
std::string sql_of(Statement statement);
// The same, cached.
const std::string& text_of(Statement statement);
// The steps of a sweep of at most $1 rows, for a SELECT after them: `due` are the handled rows, `removed` the deleted
// ones. The function once_sweep uses the same.
std::string sweep_steps_sql();

// The columns that the statements return, in this order. `seize`, `wait`, `hold`, `sweep`, `hurry`, `estimate` and
// the counts do not return them; `append` returns the first ones; pages add tenant, route and the size of the outcome.
struct Column {
  enum : std::uint8_t {
    id,
    now,
    made,  // claim: the row was inserted; append: the chunk exists
    state,
    body_kept,
    chunks_fence,
    attempt,
    fence,
    fingerprint,
    nonce,
    started_at,
    lease_until,
    expires_at,
    forget_at,
    previous_state,
    previous_started_at,
    outcome,
    chunks,  // read_chunks
    tenant = chunks,
    route,
    outcome_bytes,
  };
};

}  // namespace once::postgres
