#include "tessera/optim/muon.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "tessera/config/optimizer_kind.h"
#include "tessera/layout/updates/clipped_heads.h"
#include "tessera/layout/updates/newton_schulz_steps.h"
#include "tessera/optim/adamw.h"
#include "tessera/optim/clip_heads.h"
#include "tessera/optim/newton_schulz.h"

namespace tessera {

Muon::Muon(const Config& config, ParamTable& table, const DeviceMesh& mesh)
    : Optimizer(config, table, mesh),
      model_(config.model),
      clips_heads_(tessera::clips_heads(config)),
      steps_(newton_schulz_steps(config.optimizer)) {
  std::vector<DealtTensor> tensors;
  std::vector<ShardedParam*> params;
  for (size_t i = 0; i < table.params().size(); ++i) {
    ShardedParam& row = param(i);
    const StateOwner owner{row.name, row.role, row.shape};
    if (!row.trainable || !config.optimizer.kind->needs_whole(config.optimizer, owner)) continue;
    matrices_.insert(i);
    params.push_back(&row);
    tensors.push_back({row.name, row.shape, row.cuts,
                       matrix_pieces(row.role, row.shape[row.shape.size() - 2], config.model)});
  }
  exchange_ = std::make_unique<MatrixExchange>(
      MatrixDeal(std::move(tensors), mesh.dims(), mesh.rank()), std::move(params), stage());
}

// Of a matrix what needs its own elements only; the gradient becomes u.
void Muon::update(const DecayGroup& group, double lr) {
  const double momentum = config().momentum;
  const AdamWSettings settings{lr, config().adamw_betas, config().adamw_eps, group.weight_decay,
                               updates() + 1};
  for (const size_t i : group.params) {
    if (!matrices_.contains(i)) {
      adamw_update(param(i), slot(i, 0), slot(i, 1), {}, settings);
      continue;
    }
    at::Tensor& grad = param(i).grad;
    at::Tensor& average = slot(i, 0);
    average.mul_(momentum).add_(grad);
    if (config().nesterov) {
      grad.add_(average, momentum);
    } else {
      grad.copy_(average);
    }
    if (group.weight_decay != 0) param(i).value.mul_(1.0 - lr * group.weight_decay);
  }
}

void Muon::clip_heads(const at::Tensor& largest_LH) {
  tessera::clip_heads(table(), model_, largest_LH, config().qk_clip_threshold);
}

void Muon::finish_update(double lr) {
  flops_ = 0;
  exchange_->run(
      [this](const DealtMatrix&, const at::Tensor& whole) {
        flops_ += newton_schulz(whole, steps_, config().eps);
      },
      [this, lr](const DealtMatrix& matrix, at::Tensor value, const at::Tensor& result) {
        const auto longer = static_cast<double>(std::max(matrix.rows, matrix.columns));
        value.sub_(result, lr * config().matched_adamw_rms * std::sqrt(longer));
      });
}

}  // namespace tessera
