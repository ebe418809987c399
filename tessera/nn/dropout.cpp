#include "tessera/nn/dropout.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "tessera/base/error.h"
#include "tessera/nn/kernels/philox.h"

namespace tessera {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor masked(const at::Tensor& x, int64_t seed, int64_t step, int64_t site, double p,
                           const at::Tensor& sample_ids, const at::Tensor& in_sample,
                           int64_t first) {
    const at::Tensor keep = dropout_keep_mask(static_cast<uint64_t>(seed), step, site, p,
                                              sample_ids, in_sample, x.size(1), first);
    return at::where(keep.to(x.device()), x * (1.0 / (1.0 - p)), at::zeros({}, x.options()));
  }

  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_TH, int64_t seed,
                            int64_t step, int64_t site, double p, const at::Tensor& sample_ids,
                            const at::Tensor& in_sample, int64_t first) {
    ctx->saved_data["first"] = first;
    ctx->save_for_backward({sample_ids, in_sample});
    ctx->saved_data["seed"] = seed;
    ctx->saved_data["step"] = step;
    ctx->saved_data["site"] = site;
    ctx->saved_data["p"] = p;
    return masked(x_TH, seed, step, site, p, sample_ids, in_sample, first);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    variable_list result(8);
    result[0] = masked(grads[0], ctx->saved_data["seed"].toInt(), ctx->saved_data["step"].toInt(),
                       ctx->saved_data["site"].toInt(), ctx->saved_data["p"].toDouble(), saved[0],
                       saved[1], ctx->saved_data["first"].toInt());
    return result;
  }
};

}  // namespace

at::Tensor dropout_keep_mask(uint64_t seed, int64_t step, int64_t site, double p,
                             const at::Tensor& sample_ids, const at::Tensor& in_sample,
                             int64_t features, int64_t first_feature) {
  const at::Tensor samples = sample_ids.cpu().contiguous();
  const at::Tensor places = in_sample.cpu().contiguous();
  const int64_t tokens = samples.numel();
  TESSERA_CHECK_EQ(tokens, places.numel(), "one place per token");
  const uint64_t key =
      philox_key(philox_key(philox_key(seed, "dropout"), static_cast<uint64_t>(step)),
                 static_cast<uint64_t>(site));
  const auto threshold = static_cast<uint32_t>(std::min(p * 4294967296.0, 4294967295.0));
  at::Tensor keep = at::empty({tokens, features}, at::kBool);
  bool* out = keep.mutable_data_ptr<bool>();
  std::vector<uint32_t> words(static_cast<size_t>(features));
  for (int64_t t = 0; t < tokens; ++t) {
    philox_words(key, static_cast<uint32_t>(places.const_data_ptr<int64_t>()[t]),
                 static_cast<uint64_t>(samples.const_data_ptr<int64_t>()[t]), first_feature,
                 features, words.data());
    for (int64_t f = 0; f < features; ++f) *out++ = words[static_cast<size_t>(f)] >= threshold;
  }
  return keep;
}

at::Tensor dropout(const at::Tensor& x_TH, double p, int64_t site, const LayerContext& context) {
  if (p == 0.0 || !context.step->trains) return x_TH;
  const auto [begin, end] = context.residual_tokens;
  TESSERA_CHECK_EQ(x_TH.size(0), end - begin, "dropout works on the residual tokens");
  return dropout_of_columns(x_TH, p, site, context, 0);
}

at::Tensor dropout_of_columns(const at::Tensor& x_TC, double p, int64_t site,
                              const LayerContext& context, int64_t first_feature) {
  if (p == 0.0 || !context.step->trains) return x_TC;
  auto [begin, end] = context.residual_tokens;
  if (x_TC.size(0) != end - begin) {
    begin = 0;
    end = context.in_sample.size(0);
  }
  TESSERA_CHECK_EQ(x_TC.size(0), end - begin, "tokens that are left out by chance");
  return Dropout::apply(x_TC, static_cast<int64_t>(context.step->seed), context.step->number, site,
                        p, context.sample_ids.narrow(0, begin, end - begin),
                        context.in_sample.narrow(0, begin, end - begin), first_feature);
}

}  // namespace tessera
