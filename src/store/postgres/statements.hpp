// The store's statements, one for each step of a verb, each over arrays of operations. All of them are prepared on
// every connection.
//
// Ids are sorted, so that two gateways lock rows in the same order.
//
// No decision is made in SQL: a claim reads, the decision is core's, and `take` writes only if what was read still
// stands.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/layers.hpp"

namespace once::postgres {

enum class Statement : std::uint8_t {
  claim,  // makes the rows that are not there, and reads the others
  seize,  // before a write that takes an operation from an owner whose lease has ended
  take,   // a claim over a row that was read, if that is still as it was
  renew,
  finish,
  release,
  forget,
  resolve,
  wait,  // somebody waits for these: note it
  read,
  sweep,
  hurry,  // what comes after it in the same round waits for locks only a moment
  page,   // for operators: rows in the order of their ids, without outcomes
  count,  // the same, only how many in each state
  // The same of one state, by an index that has nothing else in it.
  page_started,
  page_failed,
  page_unknown,
  count_started,
  count_failed,
  count_unknown,
  estimate,  // how many there are, without reading them
};

inline constexpr std::array all_statements = {
    Statement::claim,        Statement::seize,         Statement::take,         Statement::renew,
    Statement::finish,       Statement::release,       Statement::forget,       Statement::resolve,
    Statement::wait,         Statement::read,          Statement::sweep,        Statement::hurry,
    Statement::page,         Statement::count,         Statement::page_started, Statement::page_failed,
    Statement::page_unknown, Statement::count_started, Statement::count_failed, Statement::count_unknown,
    Statement::estimate};

// What a write does about rows that another transaction may hold: a backend keeps them for as long as its own
// transaction takes, and the rest of the batch has nothing to do with that.
enum class Locked : std::uint8_t {
  unlikely,  // leaves out rows that anybody locked since they were written last, also if that was rolled back
  skip,      // asks for every lock, and leaves out the rows whose it does not get
  wait,      // as long as lock_timeout says
};

// What it is prepared as.
const char* name_of(Statement statement);
std::string sql_of(Statement statement);
// The same, made once.
const std::string& text_of(Statement statement);

// What every one of them returns, in this order; `seize`, `wait`, `sweep`, `hurry`, `estimate` and the counts return
// nothing of that, and the pages have tenant, route and the size of the outcome behind it.
struct Column {
  enum : std::uint8_t {
    id,
    now,
    made,  // claim: the row was not there, and is now
    state,
    body_kept,
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
    tenant,
    route,
    outcome_bytes,
  };
};

}  // namespace once::postgres
