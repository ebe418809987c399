#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/config/issue.h"
#include "tessera/planner/search/layout_choice.h"

namespace tessera {

/// Parts of layouts at some number of ranks, each legal by itself by the rules of the project, and
/// how they go together. The batch of an update stays whole: data parallel x local batch divides
/// it.
class LayoutSpace {
 public:
  LayoutSpace(const Config& config, int64_t world, int64_t node_ranks,
              const Provenance& provenance = {});

  const std::vector<LayoutChoice>& grids() const { return grids_; }      // tp, cp and its method
  const std::vector<LayoutChoice>& experts() const { return experts_; }  // ep and its dispatcher
  const std::vector<int64_t>& local_batches() const { return locals_; }

  /// All choices with these parts. What holds between parts is asked of broken_rule() before a
  /// choice counts.
  std::vector<LayoutChoice> with(const LayoutChoice& grid, const LayoutChoice& expert,
                                 int64_t local) const;

  /// Rules that parts of layouts broke, and how often.
  const std::map<std::string, int64_t>& refused() const { return refused_; }

 private:
  bool legal(const LayoutChoice& part);
  void add_grid(int64_t tp, int64_t cp);

  const Config& config_;
  const Provenance provenance_;
  Config bare_;
  int64_t world_, node_;
  std::vector<LayoutChoice> grids_, pipelines_, experts_;
  std::vector<int64_t> locals_;
  std::map<std::string, int64_t> refused_;
};

/// The first rule that a configuration breaks at `world` ranks; empty: none.
std::string broken_rule(const Config& config, int64_t world, const Provenance& provenance = {});

}  // namespace tessera
