#include "tessera/parallel/tensor_parallel.h"

#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/parallel/tensor_parallel_layers.h"
#include "tessera/parallel/tensor_parallel_mla.h"
#include "tessera/parallel/weight_marks.h"

namespace tessera {
namespace {

void replicate(Weight& weight) { mark_partial(weight, "tp"); }
void cut_rows(Weight& weight) { mark_cut(weight, "tp", 0); }
void cut_columns(Weight& weight) { mark_cut(weight, "tp", 1); }

// Rows of the key and value heads: cut, or copied where there are fewer heads than ranks.
void cut_heads(Weight& weight, size_t part, int64_t heads, int tp) {
  if (!weight.present()) return;
  ParameterPart& p = weight.parts[part];
  if (heads % tp == 0) {
    p.cuts.push_back({"tp", 0, 1});
    return;
  }
  TESSERA_CHECK(tp % heads == 0, heads, " key/value heads over tp ", tp);
  p.cuts.push_back({"tp", 0, static_cast<int>(tp / heads)});
  p.partial.emplace_back("tp");  // over the copies
}

void attention(Attention& attention, const Config& config, const ProcessGroup& tp, bool overlap) {
  Projections& qkv = *attention.qkv_proj;
  const int64_t kv_heads = config.model.num_key_value_heads;
  for (Weight* weight : {&qkv.weight, &qkv.bias}) {
    cut_heads(*weight, 0, config.model.num_attention_heads, tp.size());
    cut_heads(*weight, 1, kv_heads, tp.size());
    cut_heads(*weight, 2, kv_heads, tp.size());
  }
  for (size_t part = 0; part < qkv.part_rows.size(); ++part) {
    qkv.part_rows[part] /= tp.size() / qkv.weight.parts[part].cuts.back().copies;
  }
  attention.qkv_proj = std::make_unique<ColumnProjections>(std::move(qkv), tp, overlap);
  cut_columns(attention.o_proj->weight);
  replicate(attention.o_proj->bias);
  attention.o_proj = std::make_unique<RowLinear>(std::move(*attention.o_proj), tp, overlap);
  if (attention.q_norm) replicate(attention.q_norm->weight);
  if (attention.k_norm) replicate(attention.k_norm->weight);
}

void feed_forward(Mlp& mlp, const ProcessGroup& tp, bool overlap) {
  Projections& gate_up = *mlp.gate_up_proj;
  cut_rows(gate_up.weight);
  cut_rows(gate_up.bias);
  for (int64_t& rows : gate_up.part_rows) rows /= tp.size();
  mlp.gate_up_proj = std::make_unique<ColumnProjections>(std::move(gate_up), tp, overlap);
  cut_columns(mlp.down_proj->weight);
  replicate(mlp.down_proj->bias);
  mlp.down_proj = std::make_unique<RowLinear>(std::move(*mlp.down_proj), tp, overlap);
}

// `enable_mc2`: gathers and reductions behind the products, where they take time of their own.
bool overlaps_products(const Decoder& decoder, const Config& config, const DeviceMesh& mesh) {
  if (!config.parallelism.enable_mc2) return false;
  const bool overlap = mesh["tp"].goes_on_behind();
  if (!overlap && mesh.rank() == 0 && decoder.embedding) {
    log_info("enable_mc2: ranks are threads, whose exchanges take no time to hide; no effect");
  }
  return overlap;
}

}  // namespace

void tensor_parallel(Decoder& decoder, const Config& config, const DeviceMesh& mesh) {
  const ProcessGroup& tp = mesh["tp"];
  if (tp.size() == 1) return;
  const bool overlap = overlaps_products(decoder, config, mesh);
  if (decoder.embedding) {
    cut_rows(decoder.embedding->weight);
    // A tied head points at the weight, which moves into the new embedding.
    const bool tied = decoder.head && decoder.head->weight == &decoder.embedding->weight;
    decoder.embedding = std::make_unique<VocabularyEmbedding>(std::move(*decoder.embedding), tp);
    if (tied) decoder.head->weight = &decoder.embedding->weight;
  }
  for (DecoderLayer* layer : decoder.all_layers()) {
    for (Norm* norm : layer->norms()) replicate(norm->weight);
    if (auto* latent = dynamic_cast<LatentAttention*>(layer->attention.get())) {
      latent_attention_over_tp(*latent, tp, overlap);
    } else {
      attention(dynamic_cast<Attention&>(*layer->attention), config, tp, overlap);
    }
    // Experts work on the slice of the tokens: expert_parallel() marks them.
    if (auto* mlp = dynamic_cast<Mlp*>(layer->mlp.get())) feed_forward(*mlp, tp, overlap);
  }
  if (decoder.mtp) {
    MtpLayer& mtp = *decoder.mtp;
    for (Norm* norm : {mtp.embedding_norm.get(), mtp.hidden_norm.get(), mtp.norm.get()}) {
      replicate(norm->weight);
    }
    replicate(mtp.projection->weight);
    if (mtp.own_embedding) {
      cut_rows(mtp.own_embedding->weight);
      const bool tied = decoder.head->weight == &mtp.own_embedding->weight;
      mtp.own_embedding = std::make_unique<VocabularyEmbedding>(std::move(*mtp.own_embedding), tp);
      if (tied) decoder.head->weight = &mtp.own_embedding->weight;
    }
  }
  if (decoder.head) {
    replicate(decoder.norm->weight);
    if (decoder.head->own_weight) cut_rows(*decoder.head->own_weight);
    decoder.head = std::make_unique<VocabularyLossHead>(std::move(*decoder.head), tp,
                                                        config.parallelism.enable_loss_parallel);
  }
}

}  // namespace tessera
