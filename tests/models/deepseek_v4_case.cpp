#include "tests/models/deepseek_v4_case.h"

#include <ATen/ATen.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/base/error.h"
#include "tessera/nn/attention/rope.h"
#include "tessera/nn/experts/moe.h"
#include "tessera/storage/safetensors_header.h"
#include "tests/support/case_path.h"

namespace tessera {

namespace {

using nlohmann::json;

// What config.json says and this model needs.
struct Sizes {
  int64_t head_dim = 0, window = 0, top_k = 0, groups = 0, experts = 0, chosen = 0, streams = 0,
          iterations = 0, hash_layers = 0;
  double eps = 0, hc_eps = 0, limit = 0, scale = 0;
  std::vector<int64_t> ratios;
};

Sizes read_sizes(const json& file) {
  return {file.at("head_dim"),
          file.at("sliding_window"),
          file.at("index_topk"),
          file.at("o_groups"),
          file.at("n_routed_experts"),
          file.at("num_experts_per_tok"),
          file.at("hc_mult"),
          file.at("hc_sinkhorn_iters"),
          file.at("num_hash_layers"),
          file.at("rms_norm_eps"),
          file.at("hc_eps"),
          file.at("swiglu_limit"),
          file.at("routed_scaling_factor"),
          file.at("compress_ratios")};
}

class File {
 public:
  explicit File(const std::filesystem::path& path)
      : header_(read_safetensors_header(path)), data_(path, std::ios::binary) {}

  at::Tensor read(const std::string& name) {
    const SafetensorsEntry& entry = header_.entries.at(name);
    const at::Tensor tensor =
        at::empty(entry.shape, entry.dtype == ElementType::kF32 ? at::kFloat : at::kLong);
    data_.seekg(static_cast<std::streamoff>(header_.data_start + entry.begin));
    data_.read(static_cast<char*>(tensor.mutable_data_ptr()),
               static_cast<std::streamsize>(entry.bytes()));
    TESSERA_CHECK(data_.good(), name);
    return entry.dtype == ElementType::kF32 ? tensor.to(at::kDouble) : tensor;
  }

 private:
  SafetensorsHeaderFile header_;
  std::ifstream data_;
};

class Builder {
 public:
  explicit Builder(const std::filesystem::path& folder) : file_(folder / "model.safetensors") {
    std::ifstream in(folder / "config.json");
    config_ = json::parse(in);
    sizes_ = read_sizes(config_);
  }

  std::unique_ptr<Decoder> decoder() {
    auto made = std::make_unique<Decoder>();
    ModelConfig main;
    main.rotary_dtype = DType::kFloat64;
    main.rope_theta = config_.at("rope_theta");
    const int64_t turned = config_.at("qk_rope_head_dim");
    made->window_rope = make_rope(main, turned);
    ModelConfig compressed = main;
    const json& scaling = config_.at("rope_scaling");
    compressed.rope_theta = config_.at("compress_rope_theta");
    compressed.rope_scaling.rope_type = "yarn";
    compressed.rope_scaling.factor = scaling.at("factor");
    compressed.rope_scaling.beta_fast = scaling.at("beta_fast");
    compressed.rope_scaling.beta_slow = scaling.at("beta_slow");
    compressed.rope_scaling.attention_factor = 1.0;
    compressed.rope_scaling.original_max_position_embeddings =
        scaling.at("original_max_position_embeddings").get<int64_t>();
    made->rope = make_rope(compressed, turned);
    made->streams = sizes_.streams;
    made->embedding = std::make_unique<Embedding>();
    made->embedding->weight = weight({"embed.weight"});
    for (size_t i = 0; i < sizes_.ratios.size(); ++i) made->layers.push_back(layer(i));
    made->stream_head = std::make_unique<StreamHead>();
    made->stream_head->fn = weight({"hc_head_fn"});
    made->stream_head->base = weight({"hc_head_base"});
    made->stream_head->scale = weight({"hc_head_scale"});
    made->stream_head->norm_eps = sizes_.eps;
    made->stream_head->eps = sizes_.hc_eps;
    made->norm = norm("norm");
    made->head = std::make_unique<LossHead>();
    made->head->own_weight = std::make_unique<Weight>(weight({"head.weight"}));
    made->head->weight = made->head->own_weight.get();
    return made;
  }

 private:
  // The tensors of these names, one below the other; "{e}" stands for each expert.
  Weight weight(const std::vector<std::string>& names) {
    Weight made;
    made.dtype = at::kDouble;
    std::vector<at::Tensor> values;
    for (const std::string& name : names) {
      const size_t place = name.find("{e}");
      if (place == std::string::npos) {
        values.push_back(file_.read(name));
      } else {
        std::vector<at::Tensor> experts;
        for (int64_t e = 0; e < sizes_.experts; ++e) {
          experts.push_back(file_.read(std::string(name).replace(place, 3, std::to_string(e))));
        }
        values.push_back(at::stack(experts));
      }
      ParameterPart part;
      part.name = name;
      part.shape = values.back().sizes().vec();
      made.parts.push_back(part);
    }
    made.value = at::cat(values).requires_grad_(true);
    return made;
  }

  std::unique_ptr<Norm> norm(const std::string& name) {
    auto made = std::make_unique<Norm>();
    made->weight = weight({name + ".weight"});
    made->eps = sizes_.eps;
    return made;
  }

  std::unique_ptr<Linear> linear(const std::string& name) {
    auto made = std::make_unique<Linear>();
    made->weight = weight({name + ".weight"});
    return made;
  }

  std::unique_ptr<Projections> projections(const std::string& first, const std::string& second) {
    auto made = std::make_unique<Projections>();
    made->weight = weight({first + ".weight", second + ".weight"});
    for (const ParameterPart& part : made->weight.parts) made->part_rows.push_back(part.shape[0]);
    return made;
  }

  std::unique_ptr<KeyCompressor> compressor(const std::string& name, int64_t ratio) {
    auto made = std::make_unique<KeyCompressor>();
    made->ratio = ratio;
    made->overlaps = ratio == 4;
    made->value_gate = projections(name + ".wkv", name + ".wgate");
    made->place_bias = weight({name + ".ape"});
    made->norm = norm(name + ".norm");
    return made;
  }

  std::unique_ptr<CompressedAttention> attention(const std::string& name, int64_t ratio) {
    auto made = std::make_unique<CompressedAttention>();
    made->head_dim = sizes_.head_dim;
    made->window = sizes_.window;
    made->norm_eps = sizes_.eps;
    made->window_rope = ratio == 0;
    made->down_proj = projections(name + ".wq_a", name + ".wkv");
    made->q_norm = norm(name + ".q_norm");
    made->k_norm = norm(name + ".kv_norm");
    made->q_up = linear(name + ".wq_b");
    made->sinks = weight({name + ".attn_sink"});
    made->group_out = weight({name + ".wo_a.weight"});
    made->groups = sizes_.groups;
    made->o_proj = linear(name + ".wo_b");
    if (ratio > 0) made->compressor = compressor(name + ".compressor", ratio);
    if (ratio == 4) {
      made->indexer = std::make_unique<Indexer>();
      made->indexer->top_k = sizes_.top_k;
      made->indexer->query_up = linear(name + ".indexer.wq_b");
      made->indexer->head_weights = linear(name + ".indexer.weights_proj");
      made->indexer->keys = compressor(name + ".indexer.compressor", ratio);
    }
    return made;
  }

  std::unique_ptr<MixtureOfExperts> experts(const std::string& name, size_t index) {
    GatedUnit unit;
    unit.limit = sizes_.limit;
    auto made = std::make_unique<MixtureOfExperts>();
    made->layer = static_cast<int64_t>(index);
    made->router = std::make_unique<Router>();
    made->router->weight = weight({name + ".gate.weight"});
    made->router->function = ScoreFunction::kSqrtSoftplus;
    made->router->top_k = sizes_.chosen;
    made->router->scale = sizes_.scale;
    if (made->layer < sizes_.hash_layers) {
      made->router->table = file_.read(name + ".gate.tid2eid");
    } else {
      made->router->bias = file_.read(name + ".gate.bias");
    }
    made->dispatcher = std::make_unique<TokenDispatcher>();
    made->experts = std::make_unique<Experts>();
    made->experts->gate_up =
        weight({name + ".experts.{e}.w1.weight", name + ".experts.{e}.w3.weight"});
    made->experts->down = weight({name + ".experts.{e}.w2.weight"});
    made->experts->unit = unit;
    made->shared = std::make_unique<Mlp>();
    made->shared->gate_up_proj =
        projections(name + ".shared_experts.w1", name + ".shared_experts.w3");
    made->shared->down_proj = linear(name + ".shared_experts.w2");
    made->shared->unit = unit;
    return made;
  }

  std::unique_ptr<HyperConnection> streams(const std::string& name) {
    auto made = std::make_unique<HyperConnection>();
    made->fn = weight({name + "_fn"});
    made->base = weight({name + "_base"});
    made->scale = weight({name + "_scale"});
    made->streams = sizes_.streams;
    made->iterations = sizes_.iterations;
    made->norm_eps = sizes_.eps;
    made->eps = sizes_.hc_eps;
    return made;
  }

  std::unique_ptr<DecoderLayer> layer(size_t index) {
    const std::string name = "layers." + std::to_string(index);
    auto made = std::make_unique<DecoderLayer>();
    made->index = static_cast<int64_t>(index);
    made->before_attention.norm = norm(name + ".attn_norm");
    made->attention = attention(name + ".attn", sizes_.ratios[index]);
    made->before_mlp.norm = norm(name + ".ffn_norm");
    made->mlp = experts(name + ".ffn", index);
    made->attention_streams = streams(name + ".hc_attn");
    made->mlp_streams = streams(name + ".hc_ffn");
    return made;
  }

  File file_;
  json config_;
  Sizes sizes_;
};

}  // namespace

DeepseekV4Case open_deepseek_v4() {
  DeepseekV4Case opened;
  opened.reference.folder = test::source_dir() / "tests/cases/deepseek_v4_64";
  opened.decoder = Builder(opened.reference.folder / "model").decoder();
  for (const DecoderUnit& unit : opened.decoder->units()) {
    opened.weights.insert(opened.weights.end(), unit.weights.begin(), unit.weights.end());
  }
  return opened;
}

CompressedAttention& attention_of(DecoderLayer& layer) {
  auto* attention = dynamic_cast<CompressedAttention*>(layer.attention.get());
  TESSERA_CHECK(attention, "compressed attention");
  return *attention;
}

}  // namespace tessera
