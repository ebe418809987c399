#pragma once

// A page of memory that a worker shares with its launcher. The worker writes which step it is in
// and whom it waits for; the launcher can read it also when the worker is stopped or killed.

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
