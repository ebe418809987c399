#include <nlohmann/json.hpp>
#include <sstream>

#include "tessera/planner/plan.h"
#include "tessera/planner/seconds/seconds_text.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

Json layout(const Plan& plan) {
  const ParallelDims& dims = plan.dims;
  Json json = {{"world", dims.world},
               {"pp", dims.pp},
               {"dp_replicate", dims.dp_replicate},
               {"dp_shard", dims.dp_shard},
               {"cp", dims.cp},
               {"tp", dims.tp},
               {"ep", dims.ep},
               {"fsdp", dims.fsdp()},
               {"data_parallel", dims.batch()}};
  if (dims.ep > 1) json["efsdp"] = dims.efsdp();
  return json;
}

Json coordinates(const Plan& plan) {
  Json list = Json::array();
  for (int64_t rank = 0; rank < plan.dims.world; ++rank) {
    Json at = {{"rank", rank}};
    for (const Axis axis : kEvenAxes) {
      const bool sparse = axis == Axis::kEp || axis == Axis::kEfsdp;
      if (sparse && plan.dims.ep == 1) continue;
      at[std::string(axis_name(axis))] = plan.dims.index_on(axis, rank);
    }
    list.push_back(at);
  }
  return list;
}

Json groups(const Plan& plan) {
  Json json = Json::object();
  for (const Axis axis : kEvenAxes) {
    const bool sparse = axis == Axis::kEp || axis == Axis::kEfsdp;
    if (sparse && plan.dims.ep == 1) continue;
    json[std::string(axis_name(axis))] = plan.dims.groups(axis);
  }
  return json;
}

Json stages(const Plan& plan) {
  Json list = Json::array();
  for (const StagePlan& stage : plan.stages) {
    Json chunks = Json::array();
    for (const ChunkPlan& chunk : stage.chunks) {
      chunks.push_back({{"virtual_stage", chunk.virtual_stage},
                        {"first_layer", chunk.first_layer},
                        {"last_layer", chunk.last_layer},
                        {"embedding", chunk.embedding},
                        {"head", chunk.head},
                        {"parameters", chunk.parameters}});
    }
    list.push_back(chunks);
  }
  return list;
}

Json memory(const Plan& plan) {
  Json list = Json::array();
  for (const MemoryPlan& rank : plan.memory) {
    list.push_back({{"parameters", rank.parameters},
                    {"weights", rank.weights},
                    {"gradients", rank.gradients},
                    {"moments", rank.moments},
                    {"gathered", rank.gathered},
                    {"activations", rank.activations},
                    {"peak", rank.peak}});
  }
  return list;
}

Json matrices(const Plan& plan) {
  Json list = Json::array();
  for (const MatrixPlan& rank : plan.matrices) {
    list.push_back({{"matrices", rank.matrices},
                    {"rounds", rank.rounds},
                    {"flops", rank.flops},
                    {"sent", rank.sent},
                    {"memory", rank.memory}});
  }
  return list;
}

Json traffic(const Plan& plan) {
  Json list = Json::array();
  for (const auto& axes : plan.traffic) {
    Json rank = Json::object();
    for (const auto& [axis, axis_plan] : axes) {
      Json& sent = rank[std::string(axis_name(axis))];
      for (const auto& [name, operation] : axis_plan.operations) {
        sent[name] = {{"calls", operation.calls}, {"bytes", operation.bytes}};
      }
    }
    list.push_back(rank);
  }
  return list;
}

Json pipeline(const PipelinePlan& plan) {
  Json json = {{"micro_batches", plan.micro_batches},
               {"idle_over_ideal", plan.idle_over_ideal},
               {"idle_share", plan.idle_share},
               {"peak_live_chunks", plan.peak_live_chunks}};
  std::istringstream lines(plan.order);
  for (std::string line; std::getline(lines, line);) json["order"].push_back(line);
  if (!plan.better_layers.empty()) {
    json["better_layers_per_stage"] = plan.better_layers;
    json["better_idle_over_ideal"] = plan.better_idle_over_ideal;
  }
  return json;
}

Json experts(const ExpertPlan& plan) {
  const auto bytes = [](const ExpertPlan::Bytes& b) {
    return Json{{"in_node", b.in_node}, {"between_nodes", b.between}};
  };
  Json json = {{"experts", plan.experts},
               {"experts_per_rank", plan.experts_of_rank},
               {"layers", plan.layers},
               {"nodes", plan.nodes},
               {"alltoall", bytes(plan.all_to_all)}};
  if (plan.by_node) json["alltoall_deredundancy"] = bytes(*plan.by_node);
  json["deredundancy_pays"] = plan.pays();
  return json;
}

Json context(const ContextPlan& plan) {
  return {{"balance", plan.balance},
          {"of_one_document_a_sample", plan.by_documents},
          {"query_key_pairs", plan.pairs},
          {"busiest_over_mean", plan.most_over_mean()}};
}

Json data(const DataPlan& plan) {
  if (!plan.problem.empty()) return {{"problem", plan.problem}};
  Json json = {
      {"samples", plan.samples}, {"steps_in_data", plan.steps_in_data}, {"passes", plan.passes}};
  if (!plan.warning.empty()) json["warning"] = plan.warning;
  return json;
}

}  // namespace

std::string to_json(const Plan& plan) {
  Json json = {{"layout", layout(plan)},
               {"batch",
                {{"local", plan.batch.local_batch},
                 {"data_parallel", plan.batch.batch_ranks},
                 {"micro_batches", plan.batch.micro_batches},
                 {"asked", plan.batch.asked_batch},
                 {"effective", plan.batch.effective_batch}}},
               {"steps", plan.steps},
               {"seq_length", plan.seq_length},
               {"tokens_per_step", plan.batch.effective_batch * plan.seq_length}};
  if (!plan.model_type.empty()) {
    json["model"] = {{"model_type", plan.model_type},
                     {"parameters", plan.parameters},
                     {"flops_per_step", plan.flops_per_step}};
    json["stages"] = stages(plan);
    json["memory_per_rank"] = memory(plan);
    json["sent_per_rank_and_step"] = traffic(plan);
    if (!plan.matrices.empty()) json["whole_matrices_per_rank"] = matrices(plan);
  }
  for (const LevelPlan& at : plan.levels) {
    json["batch_levels"].push_back({{"batch", at.level.batch},
                                    {"micro_batches", at.micro_batches},
                                    {"first_step", at.level.first_step},
                                    {"steps", at.level.steps},
                                    {"samples", at.level.samples},
                                    {"peak_memory_bytes", at.peak_memory},
                                    {"idle_over_ideal", at.idle_over_ideal}});
  }
  if (plan.context) json["attention_work"] = context(*plan.context);
  if (plan.experts) json["experts"] = experts(*plan.experts);
  if (plan.pipeline) json["pipeline"] = pipeline(*plan.pipeline);
  if (plan.seconds) json["seconds"] = Json::parse(to_json(*plan.seconds));
  json["data"] = data(plan.data);
  json["ranks"] = coordinates(plan);
  json["groups"] = groups(plan);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tessera
