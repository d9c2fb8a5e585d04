// The store contract as tests. Every store passes all of them; a store's own test file includes this once and says
//
//   INSTANTIATE_TEST_SUITE_P(Redis, StoreContract, testing::Values(StoreFactory{"redis", make}), name_of);
//   INSTANTIATE_TEST_SUITE_P(Redis, LapsingStoreContract, testing::Values(StoreFactory{"redis", make}), name_of);
//
// where make() gives a StoreUnderTest (contract/fixture.hpp).
#pragma once

#include "tests/store/contract/drawn.hpp"
#include "tests/store/contract/fencing.hpp"
#include "tests/store/contract/load.hpp"
#include "tests/store/contract/operators.hpp"
#include "tests/store/contract/outside.hpp"
#include "tests/store/contract/races.hpp"
#include "tests/store/contract/stream.hpp"
#include "tests/store/contract/time.hpp"
#include "tests/store/contract/tombstone.hpp"
#include "tests/store/contract/verbs.hpp"
