#include "tessera/parallel/decoder_calls.h"

#include "tessera/base/error.h"

namespace tessera {
namespace {

using Tensors = std::vector<at::Tensor>;
using Kind = DecoderUnit::Kind;

CallFunction function_of(Decoder& decoder, const DecoderUnit& unit) {
  switch (unit.kind) {
    case Kind::kEmbedding:
      return [&decoder](const Tensors&, const LayerContext& context) {
        return Tensors{decoder.run_embedding(context)};
      };
    case Kind::kLayer:
      return [layer = unit.layer](const Tensors& inputs, const LayerContext& context) {
        return layer->run(inputs.at(0), context);
      };
    case Kind::kMtp:
      return [&decoder](const Tensors& inputs, const LayerContext& context) {
        Tensors out = decoder.run_mtp(inputs.at(0), context);
        if (Sinks* sinks = context.sinks()) sinks->mtp_loss[context.micro_batch] = out[1].detach();
        return out;
      };
    case Kind::kHead:
      return [&decoder](const Tensors& inputs, const LayerContext& context) {
        at::Tensor loss = decoder.run_head(inputs.at(0), context);
        if (Sinks* sinks = context.sinks()) sinks->loss[context.micro_batch] = loss.detach();
        return Tensors{loss};
      };
  }
  TESSERA_CHECK(false, "unknown unit");
}

std::string name_of(const DecoderUnit& unit) {
  switch (unit.kind) {
    case Kind::kEmbedding: return "embedding";
    case Kind::kMtp:
    case Kind::kLayer: return "layer " + std::to_string(unit.layer->index);
    case Kind::kHead: return "head";
  }
  TESSERA_CHECK(false, "unknown unit");
}

size_t losses_of(const DecoderUnit& unit) {
  if (unit.kind == Kind::kHead) return 1;
  const size_t of_layer = unit.layer == nullptr ? 0 : unit.layer->losses();
  return unit.kind == Kind::kMtp ? of_layer + 1 : of_layer;
}

}  // namespace

Call decoder_call(Decoder& decoder, const DecoderUnit& unit, const RecomputePlan& recompute,
                  const Resharding& resharding) {
  Call call;
  call.name = name_of(unit);
  call.forward = function_of(decoder, unit);
  call.losses = losses_of(unit);
  call.only_trains = unit.kind == Kind::kMtp;
  const bool stays = unit.kind == Kind::kHead && resharding.keep_head;
  call.reshard_after_forward = !resharding.keep_all_step && !stays;
  if (unit.layer != nullptr) {
    call.layer = unit.layer->index;
    call.recompute = recompute.whole(call.layer);
  }
  return call;
}

std::vector<const Weight*> weights_of_others(Decoder& decoder, const DecoderUnit& unit) {
  if (unit.kind == Kind::kHead) return {decoder.head->weight};
  if (unit.kind == Kind::kMtp) {
    std::vector<Weight*> all{&decoder.mtp_embedding().weight, &decoder.norm->weight,
                             decoder.head->weight};
    decoder.head->adapters.add_weights(all);
    return {all.begin(), all.end()};
  }
  return {};
}

}  // namespace tessera
