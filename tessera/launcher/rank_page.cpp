#include "tessera/launcher/rank_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace tessera {
namespace {

constexpr int kSlots = 8;  // threads of a rank that may wait at the same time
constexpr size_t kLongestText = 120;
constexpr int kFree = 0;     // the zeros of a new page are free slots
constexpr int kClaimed = 1;  // its text is being written
constexpr int kFirstPeer = 2;
constexpr int64_t kMostMicroBatches = int64_t{1} << 32;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Slot {
  std::atomic<int32_t> state;   // kFree, kClaimed, or kFirstPeer + the rank that is awaited
  std::atomic<uint32_t> order;  // of the beginning
  std::array<char, kLongestText> what;
};

}  // namespace

struct RankPage::Memory {
  std::atomic<int64_t> first;  // step of this process
  std::atomic<int64_t> step;
  std::atomic<int64_t> work;     // kind x kMostMicroBatches + micro-batch + 1
  std::atomic<int64_t> work_ns;  // when it began, of the clock that all processes of a host share
  std::atomic<int64_t> waited_ns;
  std::atomic<uint32_t> begun;  // waits so far
  std::array<Slot, kSlots> slots;
};

RankPage* RankPage::map(int descriptor) {
  void* at = ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (at != MAP_FAILED) return new RankPage(descriptor, static_cast<Memory*>(at));
  ::close(descriptor);
  return nullptr;
}

std::unique_ptr<RankPage> RankPage::create() {
  const int descriptor = ::memfd_create("tessera-rank", MFD_CLOEXEC);
  if (descriptor < 0) return nullptr;
  if (::ftruncate(descriptor, sizeof(Memory)) != 0) {
    ::close(descriptor);
    return nullptr;
  }
  return std::unique_ptr<RankPage>(map(descriptor));
}

std::shared_ptr<RankPage> RankPage::of_launcher() {
  const char* handle = std::getenv(kVariable);
  if (handle == nullptr || *handle == '\0') return nullptr;
  const int descriptor = ::open(handle, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  if (::lseek(descriptor, 0, SEEK_END) < static_cast<off_t>(sizeof(Memory))) {
    ::close(descriptor);
    return nullptr;
  }
  return std::shared_ptr<RankPage>(map(descriptor));
}

RankPage::~RankPage() {
  ::munmap(memory_, sizeof(Memory));
  ::close(descriptor_);
}

std::string RankPage::handle() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor_);
}

void RankPage::begin(int64_t step) {
  memory_->step.store(step, std::memory_order_relaxed);
  memory_->first.store(step, std::memory_order_release);
}

void RankPage::set_step(int64_t step) { memory_->step.store(step, std::memory_order_relaxed); }

int64_t RankPage::first_step() const { return memory_->first.load(std::memory_order_acquire); }

int64_t RankPage::step() const { return memory_->step.load(std::memory_order_relaxed); }

void RankPage::set_work(RankWork work, int64_t micro_batch) {
  memory_->work.store(static_cast<int64_t>(work) * kMostMicroBatches + micro_batch + 1,
                      std::memory_order_relaxed);
  memory_->work_ns.store(now_ns(), std::memory_order_release);
}

RankWork RankPage::work() const {
  return static_cast<RankWork>(memory_->work.load(std::memory_order_relaxed) / kMostMicroBatches);
}

std::string RankPage::work_text() const {
  const int64_t micro_batch = memory_->work.load(std::memory_order_relaxed) % kMostMicroBatches - 1;
  const std::string of = micro_batch < 0 ? "" : " of micro-batch " + std::to_string(micro_batch);
  switch (work()) {
    case RankWork::kStarts: return "starts";
    case RankWork::kIndexes: return "opens the data";
    case RankWork::kMeets: return "meets the other ranks";
    case RankWork::kBuilds: return "builds the model";
    case RankWork::kReads: return "reads its batch";
    case RankWork::kForward: return "computes the forward" + of;
    case RankWork::kBackward: return "computes the backward" + of;
    case RankWork::kReduces: return "reduces gradients and norm";
    case RankWork::kUpdates: return "updates the weights";
    case RankWork::kEvaluates: return "evaluates batch " + std::to_string(micro_batch);
    case RankWork::kSaves: return "saves";
  }
  return "runs";
}

std::chrono::nanoseconds RankPage::time_in_work() const {
  const int64_t since = memory_->work_ns.load(std::memory_order_acquire);
  return std::chrono::nanoseconds(since == 0 ? 0 : now_ns() - since);
}

std::chrono::nanoseconds RankPage::waited() const {
  return std::chrono::nanoseconds(memory_->waited_ns.load(std::memory_order_relaxed));
}

std::vector<RankWait> RankPage::waits() const {
  std::vector<std::pair<uint32_t, RankWait>> found;
  for (const Slot& slot : memory_->slots) {
    const int32_t state = slot.state.load(std::memory_order_acquire);
    if (state < kFirstPeer) continue;
    const uint32_t order = slot.order.load(std::memory_order_relaxed);
    const std::string what(slot.what.data(), ::strnlen(slot.what.data(), kLongestText));
    // A wait that ended and another that began in the meantime would mix.
    if (slot.order.load(std::memory_order_acquire) != order) continue;
    found.push_back({order, {state - kFirstPeer, what}});
  }
  std::ranges::sort(found, {}, [](const auto& entry) { return entry.first; });
  std::vector<RankWait> waits;
  for (auto& [order, wait] : found) waits.push_back(std::move(wait));
  return waits;
}

RankPage::Wait::Wait(RankPage* page, const std::string& what) : page_(page), what_(what) {}

void RankPage::Wait::on(int peer) {
  if (page_ == nullptr) return;
  if (since_ == std::chrono::steady_clock::time_point{}) since_ = std::chrono::steady_clock::now();
  Memory& memory = *page_->memory_;
  for (int i = 0; slot_ < 0 && i < kSlots; ++i) {
    Slot& slot = memory.slots[static_cast<size_t>(i)];
    int32_t free = kFree;
    if (!slot.state.compare_exchange_strong(free, kClaimed)) continue;
    slot.order.store(memory.begun.fetch_add(1) + 1, std::memory_order_release);
    const size_t length = std::min(what_.size(), kLongestText - 1);
    std::memcpy(slot.what.data(), what_.data(), length);
    slot.what[length] = '\0';
    slot_ = i;
  }
  if (slot_ < 0) return;
  memory.slots[static_cast<size_t>(slot_)].state.store(kFirstPeer + peer,
                                                       std::memory_order_release);
}

void RankPage::Wait::done() {
  if (page_ != nullptr && since_ != std::chrono::steady_clock::time_point{}) {
    const std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - since_;
    page_->memory_->waited_ns.fetch_add(waited.count(), std::memory_order_relaxed);
    since_ = {};
  }
  if (slot_ < 0) return;
  page_->memory_->slots[static_cast<size_t>(slot_)].state.store(kFree, std::memory_order_release);
  slot_ = -1;
}

}  // namespace tessera
