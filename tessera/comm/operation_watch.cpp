#include "tessera/comm/operation_watch.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <sstream>

#include "tessera/base/error.h"
#include "tessera/comm/process_group_impl.h"

namespace tessera {
namespace {

constexpr const char* kAlarm = "late";  // in the store: somebody waits for too long

std::string count_key(int rank) { return "late/" + std::to_string(rank); }

// What a rank says of itself: the operation that it waits for, then "<lane> <operations begun>".
struct Counts {
  std::string waits_for;
  std::vector<std::pair<std::string, int64_t>> lanes;

  int64_t of(const std::string& lane) const {
    for (const auto& [key, begun] : lanes) {
      if (key == lane) return begun;
    }
    return 0;
  }
};

std::vector<uint8_t> bytes_of(const Counts& counts) {
  std::string text = counts.waits_for + "\n";
  for (const auto& [key, begun] : counts.lanes) text += detail::concat(key, " ", begun, "\n");
  return {text.begin(), text.end()};
}

Counts counts_of(const std::vector<uint8_t>& bytes) {
  std::istringstream text(std::string(bytes.begin(), bytes.end()));
  Counts counts;
  std::getline(text, counts.waits_for);
  std::string key;
  for (int64_t begun = 0; text >> key >> begun;) counts.lanes.emplace_back(key, begun);
  return counts;
}

// One that failed is over too: whoever waits for it hears why.
bool is_done(const OperationWatch::Operation& operation) {
  try {
    return operation.done && operation.done();
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace

int64_t OperationWatch::Lane::begin(std::string what) {
  const std::lock_guard lock(mutex_);
  forget_done();
  open_.push_back({++begun_, std::move(what), Clock::now(), nullptr});
  return begun_;
}

void OperationWatch::Lane::started(int64_t number, std::function<bool()> done) {
  const std::lock_guard lock(mutex_);
  const auto open = std::find_if(open_.rbegin(), open_.rend(),
                                 [&](const Operation& one) { return one.number == number; });
  if (open != open_.rend()) open->done = std::move(done);
}

int64_t OperationWatch::Lane::begun() const {
  const std::lock_guard lock(mutex_);
  return begun_;
}

std::optional<OperationWatch::Operation> OperationWatch::Lane::oldest() {
  const std::lock_guard lock(mutex_);
  forget_done();
  if (open_.empty()) return std::nullopt;
  return open_.front();
}

void OperationWatch::Lane::forget_done() {
  while (!open_.empty() && is_done(open_.front())) open_.pop_front();
}

OperationWatch::OperationWatch(c10::intrusive_ptr<c10d::Store> store, Options options)
    : store_(std::move(store)),
      options_(std::move(options)),
      tick_(std::clamp<Milliseconds>(options_.timeout / 100, Milliseconds(10),
                                     std::chrono::seconds(5))) {
  thread_ = std::thread([this] { run(); });
}

OperationWatch::~OperationWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::shared_ptr<OperationWatch::Lane> OperationWatch::lane(std::string key,
                                                           std::vector<int> members) {
  const auto made = std::make_shared<Lane>(std::move(key), std::move(members));
  const std::lock_guard lock(mutex_);
  lanes_.push_back(made);
  return made;
}

// False when the watch ends.
bool OperationWatch::pause(Milliseconds duration) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, duration, [this] { return ending_; });
}

void OperationWatch::run() {
  while (pause(tick_)) {
    Lanes lanes;
    {
      const std::lock_guard lock(mutex_);
      lanes = lanes_;
    }
    if (look(lanes)) return;
  }
}

// True when it is over: an operation was late, and that was reported.
bool OperationWatch::look(const Lanes& lanes) {
  std::shared_ptr<Lane> lane;
  std::optional<Operation> oldest;
  for (const auto& one : lanes) {
    const std::optional<Operation> waiting = one->oldest();
    if (!waiting || (oldest && oldest->since <= waiting->since)) continue;
    lane = one;
    oldest = waiting;
  }
  if (!oldest) return false;
  const Clock::duration age = Clock::now() - oldest->since;
  if (age < tick_) return false;  // as ever: the store is left alone
  const bool late = age >= options_.timeout;
  try {
    if (late) store_->set(kAlarm, std::vector<uint8_t>{1});
    if (!answered_ && (late || store_->check({kAlarm}))) answer(lanes);
    if (!late) return false;
    options_.report(oldest->what + missing(*lane, *oldest));
  } catch (const std::exception& error) {
    if (!late) return false;
    options_.report(oldest->what + ": no answer within " + seconds_text(options_.timeout) +
                    "; rank 0, which knows from whom, is gone");
  }
  return true;
}

void OperationWatch::answer(const Lanes& lanes) {
  Counts counts;
  for (const auto& lane : lanes) {
    counts.lanes.emplace_back(lane->key, lane->begun());
    const std::optional<Operation> oldest = lane->oldest();
    if (oldest && counts.waits_for.empty()) counts.waits_for = oldest->what;
  }
  store_->set(count_key(options_.rank), bytes_of(counts));
  answered_ = true;
}

// Waits for the counts of the lane's members: who gives none waits for nothing, or is gone.
std::string OperationWatch::missing(const Lane& lane, const Operation& late) {
  const Milliseconds grace = options_.rank == 0 ? options_.grace * 3 / 2 : options_.grace;
  const Clock::time_point deadline = Clock::now() + grace;
  std::vector<int> silent, absent;
  std::string elsewhere;
  do {
    silent.clear();
    for (const int member : lane.members) {
      if (!store_->check({count_key(member)})) silent.push_back(member);
    }
  } while (!silent.empty() && Clock::now() < deadline && pause(tick_));
  for (const int member : lane.members) {
    if (std::find(silent.begin(), silent.end(), member) != silent.end()) {
      absent.push_back(member);
      continue;
    }
    const Counts counts = counts_of(store_->get(count_key(member)));
    if (counts.of(lane.key) >= late.number) continue;
    absent.push_back(member);
    elsewhere += detail::concat("; rank ", member, " waits for ", counts.waits_for);
  }
  if (absent.empty()) {
    return ": not complete within " + seconds_text(options_.timeout) +
           ", though all its ranks have started it";
  }
  return ": no answer within " + seconds_text(options_.timeout) + " from " + join_ranks(absent) +
         elsewhere;
}

}  // namespace tessera
