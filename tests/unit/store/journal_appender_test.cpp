#include <string>

#include <gtest/gtest.h>

#include "base/log.hpp"
#include "store/journal/appender.hpp"
#include "store/journal/frame_reader.hpp"
#include "store/journal/system_disk.hpp"
#include "tests/unit/support/manual_clock.hpp"
#include "tests/unit/support/temporary_folder.hpp"

namespace once::journal {
namespace journal_appender_test {

constexpr std::uint64_t outcome_of_a_claim = mark_frame_size + largest_put_overhead;

class JournalAppender : public testing::Test {
 protected:
  JournalAppender() {
    // One segment and no room for a second one.
    settings_.segment_bytes = std::size_t{64} << 10U;
    settings_.max_disk = std::size_t{80} << 10U;
  }

  void SetUp() override {
    ASSERT_TRUE(disk_.lock().has_value());
    appender_->start(JournalId(), Fence{7});
    ASSERT_TRUE(appender_->segments().ensure_spare(Need::start).has_value());
    ASSERT_TRUE(appender_->begin_run(clock_.now(), {}).has_value());
    Appender::make_room(appender_, {.bytes = mark_frame_size}, clock_.now());
    appender_->begin_write();
  }

  std::uint64_t largest_frame(const Appender::Beside& beside = {}) const {
    std::uint64_t fits = 0;
    while (appender_->has_room_for(fits + 1, beside)) ++fits;
    return fits;
  }
  std::string payload_at(Place place) {
    Pinned pinned = appender_->segments().pin(place);
    std::string buffer;
    const auto payload = FrameReader(disk_, pinned, buffer).whole();
    return payload ? std::string(*payload) : payload.error().detail;
  }

  TemporaryFolder folder_;
  SystemDisk disk_{folder_.path()};
  ManualClock clock_;
  Log log_{clock_, 2, LogLevel::off, LogFormat::text};
  JournalSettings settings_;
  Counters counters_;
  Synchronized<Appender> synchronized_{disk_, log_, settings_, counters_};
  Locked<Appender> appender_ = synchronized_.lock();
};

TEST_F(JournalAppender, room_is_kept_for_the_outcome_of_every_claim) {
  const std::uint64_t alone = largest_frame();
  EXPECT_EQ(largest_frame({.claims = 1}), alone - outcome_of_a_claim);
  EXPECT_EQ(largest_frame({.bytes = 10}), alone - 10);
  appender_->claim_begins();
  appender_->claim_begins();
  EXPECT_EQ(largest_frame(), alone - 2 * outcome_of_a_claim);
  appender_->claim_ends();
  EXPECT_EQ(largest_frame(), alone - outcome_of_a_claim);

  Op op;
  appender_->remove(op, Fence{1});
  EXPECT_EQ(largest_frame(), alone - 2 * outcome_of_a_claim - remove_frame_size);
}

TEST_F(JournalAppender, a_spare_segment_takes_what_has_to_be_kept_free) {
  const std::uint64_t room = appender_->segments().room();
  EXPECT_LT(largest_frame() + mark_frame_size, room);
  ASSERT_TRUE(appender_->segments().ensure_spare(Need::start).has_value());
  EXPECT_EQ(largest_frame() + mark_frame_size, room);
}

TEST_F(JournalAppender, frames_of_one_write_are_where_their_changes_say) {
  Op first{.id = {{1}}};
  Op second{.id = {{2}}};
  appender_->put(first, Record{.state = State::failed}, {.tenant = "a", .route = "b"});
  appender_->put(second, Record(), {});
  ASSERT_TRUE(appender_->write_changes(clock_.now()).has_value());
  ASSERT_EQ(appender_->changes().size(), 2U);
  EXPECT_EQ(counters_.syncs.get(), 1U);
  EXPECT_EQ(appender_->segments().durable_up_to(), appender_->segments().tail());
  for (const Appender::Change& change : appender_->changes()) {
    const std::string payload = payload_at(change.place);
    const auto seen = glance(payload);
    ASSERT_TRUE(seen.has_value()) << payload;
    EXPECT_EQ(seen->id, change.op->id);
    EXPECT_EQ(seen->state, change.place.state());
  }
  EXPECT_EQ(labels_of(payload_at(appender_->changes().front().place)).tenant, "a");
}

TEST_F(JournalAppender, labels_give_way_when_there_is_no_room_for_them) {
  Op op;
  const Labels labels{.tenant = std::string_view("a tenant"), .route = "a route"};
  while (appender_->has_room_for(put_frame_size(Record(), labels))) appender_->put(op, Record(), labels);
  appender_->put(op, Record(), labels);
  ASSERT_TRUE(appender_->write_changes(clock_.now()).has_value());
  EXPECT_FALSE(labels_of(payload_at(appender_->changes().front().place)).empty());
  EXPECT_TRUE(labels_of(payload_at(appender_->changes().back().place)).empty());
}

TEST_F(JournalAppender, fences_go_on_from_where_they_were) {
  EXPECT_EQ(appender_->next_fence(), Fence{8});
  EXPECT_EQ(appender_->next_fence(), Fence{9});
}

TEST_F(JournalAppender, a_journal_that_failed_stays_failed) {
  Health& health = appender_->health();
  health.no_room_or_fail({.fault = DiskFault::no_space, .detail = "no space"});
  EXPECT_EQ(counters_.condition.get(), Condition::full);
  EXPECT_FALSE(appender_->has_failed());
  health.no_room_or_fail({.fault = DiskFault::failed, .detail = "broken"});
  health.fail({.detail = "broken again"});
  health.set_full({.fault = DiskFault::no_space, .detail = "no space"});
  health.set_well();
  EXPECT_EQ(counters_.condition.get(), Condition::failed);
  EXPECT_EQ(health.failure(), "the journal has failed and needs a restart: broken");
}

}  // namespace journal_appender_test
}  // namespace once::journal
