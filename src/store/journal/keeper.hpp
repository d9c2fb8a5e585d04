// The background thread of a journal.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "store/journal/journal_store.hpp"

namespace once::journal {

class JournalKeeper {
 public:
  explicit JournalKeeper(JournalStore& store);
  ~JournalKeeper();
  JournalKeeper(const JournalKeeper&) = delete;
  JournalKeeper& operator=(const JournalKeeper&) = delete;

 private:
  void run();

  JournalStore& store_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace once::journal
