// parallel_config, parallel and the batch: degrees, pipeline stages, samples of an update.

#include <algorithm>

#include "tessera/config/static_graph/parts.h"

namespace tessera::static_graph {
namespace {

// Layers that a chunk has more or fewer than an even share: an int for all, a list by stage, or a
// list by chunk of lists by stage. [chunk][stage]; empty: not understood.
std::vector<std::vector<int64_t>> offsets(const Value* offset, int64_t chunks, int64_t stages) {
  const auto number = [](const Value& value) {
    return value.kind == Value::Kind::kScalar ? parse_int(value.text).value_or(0) : 0;
  };
  std::vector<std::vector<int64_t>> all(static_cast<size_t>(chunks),
                                        std::vector<int64_t>(static_cast<size_t>(stages), 0));
  if (offset == nullptr) return all;
  if (offset->kind == Value::Kind::kScalar) {
    for (auto& of_chunk : all) std::ranges::fill(of_chunk, number(*offset));
    return all;
  }
  const bool nested = !offset->items.empty() && offset->items[0].kind == Value::Kind::kSequence;
  for (size_t chunk = 0; chunk < all.size(); ++chunk) {
    const Value* row = offset;
    if (nested) {
      if (chunk >= offset->items.size()) return {};
      row = &offset->items[chunk];
    }
    if (row->items.size() != all[chunk].size()) return {};
    for (size_t stage = 0; stage < all[chunk].size(); ++stage) {
      all[chunk][stage] = number(row->items[stage]);
    }
  }
  return all;
}

bool all_zero(const std::vector<std::vector<int64_t>>& all) {
  return std::ranges::all_of(all, [](const auto& row) {
    return std::ranges::all_of(row, [](int64_t n) { return n == 0; });
  });
}

// Chunk j of stage i has floor(L / (pp v)) + offset layers, in the order of virtual stages j pp +
// i.
void place_layers(Work& work, const Value* offset) {
  constexpr const char* kKey = "pipeline_parallel_layers_per_stage";
  const auto by_chunk = offsets(offset, work.chunks, work.stages);
  const int64_t virtual_stages = work.stages * work.chunks;
  const bool even = !by_chunk.empty() && all_zero(by_chunk) &&
                    (!work.layers || *work.layers % virtual_stages == 0);
  if (even) {
    work.file.add("parallelism", kKey, "auto");
    return;
  }
  if (!work.layers || by_chunk.empty()) {
    work.file.add("parallelism", kKey, "auto");
    work.change(offset, by_chunk.empty()
                            ? "offset has another form than stages and chunks"
                            : "offset needs model.num_hidden_layers, which the file does not say");
    return;
  }
  std::vector<std::string> stages(static_cast<size_t>(work.stages));
  int64_t next = 0;
  for (int64_t chunk = 0; chunk < work.chunks; ++chunk) {
    for (int64_t stage = 0; stage < work.stages; ++stage) {
      int64_t count = *work.layers / virtual_stages +
                      by_chunk[static_cast<size_t>(chunk)][static_cast<size_t>(stage)];
      const bool last = chunk + 1 == work.chunks && stage + 1 == work.stages;
      if (last && next + count < *work.layers) {  // where layers are changes no number
        count = *work.layers - next;
        work.notes.push_back("offset leaves layers over: the last stage takes them");
      }
      std::string& text = stages[static_cast<size_t>(stage)];
      text += (text.empty() ? "" : ", ") + std::to_string(next);
      if (count > 1) text += "-" + std::to_string(next + count - 1);
      if (count < 1) {
        work.change(offset, "offset leaves stage " + std::to_string(stage) + " without a layer");
      }
      next += count;
    }
  }
  if (next != *work.layers) {
    work.change(offset, "offset places " + std::to_string(next) + " layers, the model has " +
                            std::to_string(*work.layers));
  }
  std::string list;
  for (const std::string& stage : stages) list += (list.empty() ? "\"" : ", \"") + stage + "\"";
  work.file.add("parallelism", kKey, "[" + list + "]");
}

void shard(Work& work, int64_t data, int64_t context, int64_t tensor, int64_t experts) {
  Leaves& old = work.old;
  const bool sharded = old.take_bool("parallel.enable_parallel_optimizer", false);
  const int64_t size =
      old.take_int("parallel.parallel_optimizer_config.optimizer_weight_shard_size", -1);
  if (sharded) {
    const int64_t degree = size < 0 ? -1 : std::min(size, data);
    work.file.add("parallelism", "data_parallel_shard", std::to_string(degree),
                  degree != size ? "optimizer_weight_shard_size was " + std::to_string(size) : "");
  } else if ((context * tensor) % experts == 0) {
    work.file.add("parallelism", "data_parallel_shard", "1");
  } else {
    work.file.add("parallelism", "data_parallel_shard", "-1",
                  "1 before; experts are spread inside of what is sharded, with the same numbers");
  }
}

void convert_context(Work& work, int64_t context) {
  Leaves& old = work.old;
  const Value* algorithm = old.take("parallel_config.context_parallel_algo");
  const Value* ulysses = old.take("parallel_config.ulysses_degree_in_cp");
  if (context == 1) return;
  work.file.add("parallelism", "context_parallel", std::to_string(context));
  std::string method = algorithm == nullptr ? "colossalai_cp" : algorithm->text;
  if (method == "colossalai_cp") method = "colossal";
  if (method == "ulysses_cp") method = "ulysses";
  if (method == "hybrid_cp") method = "hybrid";
  work.file.add("parallelism", "context_parallel_method", method);
  if (ulysses != nullptr && method != "colossal") {
    work.file.add("parallelism", "ulysses_degree_in_cp", flow(*ulysses));
  }
}

void convert_scheduler(Work& work) {
  const Value* scheduler = work.old.take("parallel.pipeline_config.pipeline_scheduler");
  work.old.take("parallel.pipeline_config.pipeline_interleave");
  if (scheduler == nullptr || work.stages == 1) return;
  const bool plain = scheduler->text == "1f1b" || scheduler->text == "gpipe";
  work.file.add("parallelism", "pipeline_parallel_schedule",
                work.chunks > 1 ? "interleaved_1f1b" : "1f1b",
                plain ? "" : scheduler->text + " before, which gives the same numbers");
}

}  // namespace

void convert_layout(Work& work) {
  Leaves& old = work.old;
  const bool parallel = old.take_bool("use_parallel", false);
  const auto degree = [&](const std::string& key) {
    const int64_t value = old.take_int("parallel_config." + key, 1);
    return parallel ? value : 1;
  };
  const int64_t data = degree("data_parallel");
  const int64_t tensor = degree("model_parallel");
  const int64_t context = degree("context_parallel");
  const int64_t experts = degree("expert_parallel");
  work.stages = degree("pipeline_stage");
  work.chunks = old.take_int("model.model_config.pp_interleave_num", 1);
  if (work.stages == 1) work.chunks = 1;
  work.ranks = data * tensor * work.stages * context;

  // Micro-batches count where there are stages, accumulation where there are none.
  const int64_t micro = degree("micro_batch_num");
  const int64_t interleaved = old.take_int("micro_batch_interleave_num", 1);
  const int64_t local = old.take_int("runner_config.batch_size", 1);
  const int64_t accumulated = old.take_int("runner_config.gradient_accumulation_steps", 1);
  work.global_batch = local * data * interleaved * (work.stages > 1 ? micro : accumulated);
  work.micro_batches = work.global_batch / (local * data);
  work.file.add("training", "local_batch_size", std::to_string(local));
  work.file.add("training", "global_batch_size", std::to_string(work.global_batch));

  shard(work, data, context, tensor, experts);
  work.file.add("parallelism", "tensor_parallel", std::to_string(tensor));
  if (tensor > 1) work.file.add("parallelism", "sequence_parallel", "true");
  convert_context(work, context);
  work.file.add("parallelism", "pipeline_parallel", std::to_string(work.stages));
  const Value* offset = old.take("model.model_config.offset");
  if (work.stages > 1) {
    work.file.add("parallelism", "pipeline_parallel_interleave_num", std::to_string(work.chunks));
    place_layers(work, offset);
  }
  convert_scheduler(work);
  if (experts > 1) {
    work.file.add("parallelism", "expert_parallel", std::to_string(experts));
  }
  for (const char* key : {"moe_token_dispatcher_type", "npu_nums_per_device"}) {
    if (const Value* value = old.take(std::string("model.model_config.") + key)) {
      work.file.add("parallelism", key, flow(*value));
    }
  }
}

}  // namespace tessera::static_graph
