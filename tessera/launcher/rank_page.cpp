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

struct Slot {
  std::atomic<int32_t> state;   // kFree, kClaimed, or kFirstPeer + the rank that is awaited
  std::atomic<uint32_t> order;  // of the beginning
  std::array<char, kLongestText> what;
};

}  // namespace

struct RankPage::Memory {
  std::atomic<int64_t> first;  // step of this process
  std::atomic<int64_t> step;
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
  if (slot_ < 0) return;
  page_->memory_->slots[static_cast<size_t>(slot_)].state.store(kFree, std::memory_order_release);
  slot_ = -1;
}

}  // namespace tessera
