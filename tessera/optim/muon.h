#pragma once

#include <memory>
#include <set>
#include <vector>

#include "tessera/optim/matrix_exchange.h"
#include "tessera/optim/optimizer.h"

namespace tessera {

/// Muon (Jordan et al. 2024; scaled as in Liu et al. 2025, arXiv 2502.16982, 2.2): m = mu m + g,
/// u = g + mu m with nesterov, else m; every piece of u is made orthogonal (newton_schulz.h), and
///   W = W (1 - lr decay) - lr matched_adamw_rms sqrt(max(rows, columns)) piece.
/// What is no matrix, and what adamw_include names, is moved by AdamW. Every matrix of a stage is
/// iterated by one of its ranks.
class Muon final : public Optimizer {
 public:
  Muon(const Config& config, ParamTable& table, const DeviceMesh& mesh);
  bool clips_heads() const override { return clips_heads_; }
  void clip_heads(const at::Tensor& largest_LH) override;
  double flops() const override { return flops_; }

 protected:
  void update(const DecayGroup& group, double lr) override;
  void finish_update(double lr) override;

 private:
  ModelConfig model_;
  bool clips_heads_ = false;
  double flops_ = 0;  // of the iterations of the last update
  std::vector<NewtonSchulzTriple> steps_;
  std::set<size_t> matrices_;  // rows of the table
  std::unique_ptr<MatrixExchange> exchange_;
};

}  // namespace tessera
