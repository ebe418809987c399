#pragma once

// A page of memory that a worker shares with its launcher. The worker writes which step it is in
// and whom it waits for; the launcher can read it also when the worker is stopped or killed.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tessera {

/// One wait of a rank.
struct RankWait {
  int peer = -1;     // the rank that it waits for
  std::string what;  // "all_reduce in group tp"
};

/// What a rank does at a moment.
enum class RankWork {
  kStarts,
  kIndexes,   // opens the data, makes what is missing of an index
  kMeets,     // the other ranks
  kBuilds,    // the model; reads weights or a checkpoint
  kReads,     // its batch of a step
  kForward,   // of a micro-batch
  kBackward,  // of a micro-batch
  kReduces,   // gradients, norm, losses
  kUpdates,
  kEvaluates,  // a batch of a set
  kSaves,
};

class RankPage {
 public:
  /// Of the launcher: a new page, all zeros. Null when there is no memory for it.
  static std::unique_ptr<RankPage> create();
  /// Of the worker: the page that its launcher made; null when the launcher made none.
  static std::shared_ptr<RankPage> of_launcher();

  ~RankPage();
  RankPage(const RankPage&) = delete;
  RankPage& operator=(const RankPage&) = delete;

  /// What the worker finds in its environment under kVariable.
  std::string handle() const;
  static constexpr const char* kVariable = "TESSERA_RANK_PAGE";

  /// The first step of this process, from 1: it begins.
  void begin(int64_t step);
  /// The step that begins.
  void set_step(int64_t step);
  /// 0 before the first step.
  int64_t step() const;
  /// The step with which this process began; 0 before.
  int64_t first_step() const;

  /// The work that begins, of this micro-batch where it is of one.
  void set_work(RankWork work, int64_t micro_batch = -1);
  RankWork work() const;
  /// "computes the forward of micro-batch 3"
  std::string work_text() const;
  /// Since the work began; 0: none has.
  std::chrono::nanoseconds time_in_work() const;

  /// All waits for other ranks up to now that are over, together.
  std::chrono::nanoseconds waited() const;

  /// The waits that are open, the oldest first.
  std::vector<RankWait> waits() const;

  /// Marks one wait. Only done() ends it: what a rank failed in stays to be read.
  class Wait {
   public:
    /// `page` may be null: then nothing is marked. `what` outlives this.
    Wait(RankPage* page, const std::string& what);
    Wait(RankPage* page, std::string&& what) = delete;
    /// Now the wait is for this rank.
    void on(int peer);
    void done();

   private:
    RankPage* page_ = nullptr;
    int slot_ = -1;
    std::chrono::steady_clock::time_point since_;
    const std::string& what_;
  };

 private:
  struct Memory;
  RankPage(int descriptor, Memory* memory) : descriptor_(descriptor), memory_(memory) {}
  static RankPage* map(int descriptor);

  int descriptor_ = -1;
  Memory* memory_ = nullptr;
};

}  // namespace tessera
