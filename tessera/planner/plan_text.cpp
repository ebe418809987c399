#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/planner/bytes_text.h"
#include "tessera/planner/plan.h"
#include "tessera/planner/seconds/seconds_text.h"

namespace tessera {
namespace {

// Up to so many all are shown, else half of them; --json has the rest.
constexpr int64_t kRanksShown = 16;
constexpr int64_t kStagesShown = 8;
constexpr size_t kGroupsWidth = 76;  // of a line of 100
constexpr size_t kListWidth = 150;   // to be pasted: over two lines at most
constexpr std::ptrdiff_t kTableLines = 8;

std::string count_text(int64_t count) {
  std::string digits = std::to_string(count);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

// (fmt::join makes GCC 12 warn of writes that it does not do.)
std::string joined(const std::vector<std::string>& parts, const std::string& separator) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : separator) + part;
  return text;
}

// A group's ranks are equally far apart: a long one is {0-63} or {0 4 … 252}.
std::string set_text(const std::vector<int64_t>& ranks) {
  std::vector<std::string> parts;
  size_t width = 0;
  for (const int64_t rank : ranks) {
    parts.push_back(std::to_string(rank));
    width += parts.back().size() + 1;
    if (width <= kGroupsWidth) continue;
    return ranks[1] == ranks[0] + 1
               ? fmt::format("{{{}-{}}}", ranks.front(), ranks.back())
               : fmt::format("{{{} {} … {}}}", ranks[0], ranks[1], ranks.back());
  }
  return "{" + joined(parts, " ") + "}";
}

std::string groups_text(const std::vector<std::vector<int64_t>>& groups) {
  std::string text;
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::string group = set_text(groups[i]);
    if (!text.empty() && text.size() + group.size() > kGroupsWidth) {
      return text + fmt::format(" … {} groups", groups.size());
    }
    text += (text.empty() ? "" : " ") + group;
  }
  return text;
}

bool is_sparse(Axis axis) { return axis == Axis::kEp || axis == Axis::kEfsdp; }

std::string layout_text(const Plan& plan) {
  const ParallelDims& d = plan.dims;
  std::string text =
      fmt::format("layout   {} ranks = dp_replicate {} x dp_shard {} x cp {} x tp {} x pp {}\n",
                  d.world, d.dp_replicate, d.dp_shard, d.cp, d.tp, d.pp);
  if (d.ep > 1) {
    text += fmt::format("         experts: ep {} x efsdp {} = dp_shard x cp x tp {}\n", d.ep,
                        d.efsdp(), d.dp_shard * d.cp * d.tp);
  }
  return text;
}

std::string batch_text(const Plan& plan) {
  const BatchPlan& b = plan.batch;
  std::string text = fmt::format(
      "batch    {} sequences a step = data parallel {} x local {} x {} micro-batch{}; {} tokens\n",
      b.effective_batch, b.batch_ranks, b.local_batch, b.micro_batches,
      b.micro_batches == 1 ? "" : "es", count_text(b.effective_batch * plan.seq_length));
  if (b.effective_batch != b.asked_batch) {
    text +=
        fmt::format("         {} were asked: floor({} / ({} x {})) = {} micro-batches\n",
                    b.asked_batch, b.asked_batch, b.batch_ranks, b.local_batch, b.micro_batches);
  }
  return text;
}

// All levels, or of many the first and the last ones.
std::string levels_text(const Plan& plan) {
  constexpr size_t kLevelsShown = 16;
  if (plan.levels.empty()) return "";
  std::string text = fmt::format("ramp     {:>10}{:>14}{:>10}{:>18}{:>12}{:>8}\n", "batch",
                                 "micro-batches", "steps", "samples, in all", "peak", "idle");
  for (size_t i = 0; i < plan.levels.size(); ++i) {
    const LevelPlan& at = plan.levels[i];
    const bool outer = i < kLevelsShown / 2 || i + kLevelsShown / 2 >= plan.levels.size();
    if (i == kLevelsShown / 2 && !outer) {
      text += fmt::format("         … {} levels (all: --json)\n", plan.levels.size());
    }
    if (!outer) continue;
    text += fmt::format("         {:>10}{:>14}{:>10}{:>18}{:>12}{:>7.1f}%\n", at.level.batch,
                        at.micro_batches, at.level.steps, count_text(at.level.samples),
                        bytes_text(at.peak_memory), 100.0 * at.idle_over_ideal);
  }
  return text;
}

std::string data_text(const Plan& plan) {
  const DataPlan& d = plan.data;
  if (!d.problem.empty()) return "data     " + d.problem + "\n";
  std::string text = fmt::format("data     {} samples: {:.4g} steps, {} asked\n",
                                 count_text(d.samples), d.steps_in_data, plan.steps);
  if (!d.warning.empty()) text += "         " + d.warning + "\n";
  return text;
}

std::string chunk_text(const ChunkPlan& chunk) {
  std::string text = chunk.embedding ? "embedding, " : "";
  text += chunk.first_layer == chunk.last_layer
              ? fmt::format("layer {}", chunk.first_layer)
              : fmt::format("layers {}-{}", chunk.first_layer, chunk.last_layer);
  if (chunk.head) text += ", head";
  return text + fmt::format(" ({})", count_text(chunk.parameters));
}

// All, or of many the first, the last and `one`.
std::vector<int64_t> shown_stages(int64_t stages, int64_t one) {
  std::vector<int64_t> shown;
  for (int64_t pp = 0; pp < stages; ++pp) {
    const bool outer = pp < kStagesShown / 2 || pp == stages - 1;
    if (stages <= kStagesShown || outer || pp == one) shown.push_back(pp);
  }
  return shown;
}

std::string stages_left_out(int64_t stages) {
  return stages <= kStagesShown ? "" : fmt::format("         … {} stages (all: --json)\n", stages);
}

std::string stages_text(const Plan& plan) {
  std::string text;
  const auto stages = static_cast<int64_t>(plan.stages.size());
  for (const int64_t pp : shown_stages(stages, 0)) {
    std::vector<std::string> chunks;
    for (const ChunkPlan& chunk : plan.stages[static_cast<size_t>(pp)].chunks) {
      chunks.push_back(chunk_text(chunk));
    }
    text +=
        fmt::format("{} {:>3}: {}\n", pp == 0 ? "stages  " : "        ", pp, joined(chunks, "; "));
  }
  return text + stages_left_out(stages);
}

// [pp] The rank whose memory is the largest, among those of a stage.
std::vector<size_t> largest_ranks(const Plan& plan) {
  const size_t of_stage = plan.memory.size() / static_cast<size_t>(plan.dims.pp);
  std::vector<size_t> largest;
  for (size_t first = 0; first < plan.memory.size(); first += of_stage) {
    size_t best = first;
    for (size_t rank = first; rank < first + of_stage; ++rank) {
      if (plan.memory[rank].peak > plan.memory[best].peak) best = rank;
    }
    largest.push_back(best);
  }
  return largest;
}

std::string memory_text(const Plan& plan) {
  std::string text = fmt::format("memory   {:<16}{:>14}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}\n",
                                 "of a rank", "parameters", "weights", "gradients", "moments",
                                 "gathered", "activations", "peak");
  const std::vector<size_t> largest = largest_ranks(plan);
  const auto fullest = std::max_element(largest.begin(), largest.end(), [&](size_t a, size_t b) {
    return plan.memory[a].peak < plan.memory[b].peak;
  });
  for (const int64_t pp : shown_stages(plan.dims.pp, fullest - largest.begin())) {
    const size_t rank = largest[static_cast<size_t>(pp)];
    const MemoryPlan& m = plan.memory[rank];
    const std::string who = plan.dims.pp == 1 ? fmt::format("largest: {}", rank)
                                              : fmt::format("stage {}: {}", pp, rank);
    text += fmt::format("         {:<16}{:>14}{:>10}{:>10}{:>10}{:>10}{:>12}{:>10}\n", who,
                        count_text(m.parameters), bytes_text(m.weights), bytes_text(m.gradients),
                        bytes_text(m.moments), bytes_text(m.gathered), bytes_text(m.activations),
                        bytes_text(m.peak));
  }
  return text + stages_left_out(plan.dims.pp);
}

std::string traffic_text(const Plan& plan) {
  std::map<Axis, size_t> busiest;
  for (size_t rank = 0; rank < plan.traffic.size(); ++rank) {
    for (const auto& [axis, traffic] : plan.traffic[rank]) {
      const auto [entry, is_new] = busiest.emplace(axis, rank);
      if (!is_new && traffic.bytes() > plan.traffic[entry->second].at(axis).bytes()) {
        entry->second = rank;
      }
    }
  }
  std::string text;
  for (const auto& [axis, rank] : busiest) {
    const TrafficPlan& traffic = plan.traffic[rank].at(axis);
    std::vector<std::string> parts;
    for (const auto& [name, operation] : traffic.operations) {
      parts.push_back(
          fmt::format("{} {} in {}", name, bytes_text(operation.bytes), operation.calls));
    }
    text += fmt::format("{} over {:<13} {:>9} a step: {}\n", text.empty() ? "sent    " : "        ",
                        axis_name(axis), bytes_text(traffic.bytes()), joined(parts, ", "));
  }
  return text;
}

std::string matrices_text(const Plan& plan) {
  if (plan.matrices.empty()) return "";
  double most = 0, sum = 0;
  int64_t memory = 0, rounds = 0, matrices = 0;
  for (const MatrixPlan& rank : plan.matrices) {
    most = std::max(most, rank.flops);
    sum += rank.flops;
    memory = std::max(memory, rank.memory);
    rounds = std::max(rounds, rank.rounds);
    matrices += rank.matrices;
  }
  const double mean = sum / static_cast<double>(plan.matrices.size());
  return fmt::format(
      "update   {} matrices in {} round{}: {:.3g} GFLOP on the busiest rank, {:.2f} times the "
      "mean; "
      "{} beside\n         masters, moments and gradients\n",
      count_text(matrices), rounds, rounds == 1 ? "" : "s", most / 1e9,
      mean > 0 ? most / mean : 1.0, bytes_text(memory));
}

std::string context_text(const ContextPlan& plan) {
  const auto [least, most] = std::minmax_element(plan.pairs.begin(), plan.pairs.end());
  const std::string range =
      *least == *most ? count_text(std::llround(*most))
                      : count_text(std::llround(*least)) + " to " + count_text(std::llround(*most));
  std::string text = fmt::format(
      "work     {} query-key pairs a rank (of a sample, layer and head): the busiest {:.2f} times "
      "the mean, {}\n",
      range, plan.most_over_mean(), plan.balance);
  if (plan.by_documents) {
    text += "         for one document a sample; where documents end decides, --trace holds it\n";
  }
  return text;
}

std::string experts_text(const ExpertPlan& plan) {
  std::string text =
      fmt::format("experts  {} of {} a rank in {} layers; with even routing a rank sends a step\n",
                  plan.experts_of_rank, plan.experts, plan.layers);
  const auto line = [](const char* name, const ExpertPlan::Bytes& bytes) {
    return fmt::format("         {:<22} {:>9} in the node, {:>9} between nodes\n", name,
                       bytes_text(bytes.in_node), bytes_text(bytes.between));
  };
  text += line("alltoall", plan.all_to_all);
  if (!plan.by_node) {
    return text +
           "         alltoall_deredundancy needs ep to be a multiple of npu_nums_per_device\n";
  }
  text += line("alltoall_deredundancy", *plan.by_node);
  if (plan.nodes == 1) return text + "         one node: de-redundancy saves nothing\n";
  return text + fmt::format("         over {} nodes de-redundancy {}\n", plan.nodes,
                            plan.pays() ? "pays" : "does not pay");
}

// Only a short one: the text is to fit a screen.
std::string table_text(const std::string& table) {
  if (std::count(table.begin(), table.end(), '\n') > kTableLines) return "";
  std::string text = "         ";
  for (size_t i = 0; i < table.size(); ++i) {
    text += table[i];
    const bool line_follows = i + 1 < table.size() && table[i + 1] != '\n';
    if (table[i] == '\n' && line_follows) text += "         ";
  }
  return text;
}

std::string pipeline_text(const PipelinePlan& plan) {
  std::string text = fmt::format("pipeline {} micro-batches: idle {:.1f} % of the work\n",
                                 plan.micro_batches, 100.0 * plan.idle_over_ideal);
  const auto stages = static_cast<int64_t>(plan.idle_share.size());
  for (const int64_t pp : shown_stages(stages, 0)) {
    const auto at = static_cast<size_t>(pp);
    text +=
        fmt::format("         stage {}: idle {:.1f} % of the step, at most {} chunk{} in flight\n",
                    pp, 100.0 * plan.idle_share[at], plan.peak_live_chunks[at],
                    plan.peak_live_chunks[at] == 1 ? "" : "s");
  }
  text += stages_left_out(stages);
  if (!plan.better_layers.empty()) {
    const std::string list = "[\"" + joined(plan.better_layers, "\", \"") + "\"]";
    text += fmt::format(
        "         with pipeline_parallel_layers_per_stage: {} idle {:.1f} % of the work\n",
        list.size() > kListWidth ? "better_layers_per_stage of --json" : list,
        100.0 * plan.better_idle_over_ideal);
  }
  return text + table_text(plan.table);
}

std::string ranks_text(const Plan& plan) {
  std::string text = "ranks   ";
  std::vector<Axis> axes;
  for (const Axis axis : kEvenAxes) {
    if (plan.dims.size(axis) > 1 && !(is_sparse(axis) && plan.dims.ep == 1)) axes.push_back(axis);
  }
  if (axes.empty()) return text + " one rank, on every axis alone\n";
  text += "rank";
  for (const Axis axis : axes) text += fmt::format(" {:>12}", axis_name(axis));
  text += "\n";
  const int64_t shown = plan.dims.world <= kRanksShown ? plan.dims.world : kRanksShown / 2;
  for (int64_t rank = 0; rank < shown; ++rank) {
    text += fmt::format("        {:>4}", rank);
    for (const Axis axis : axes) text += fmt::format(" {:>12}", plan.dims.index_on(axis, rank));
    text += "\n";
  }
  if (shown < plan.dims.world) {
    text += fmt::format("         … {} ranks (all: --json)\n", plan.dims.world);
  }
  // Axes that happen to have the same groups share a line.
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Axis axis : axes) {
    const std::string groups = groups_text(plan.dims.groups(axis));
    const auto same = std::find_if(lines.begin(), lines.end(),
                                   [&](const auto& line) { return line.second == groups; });
    if (same == lines.end()) {
      lines.emplace_back(axis_name(axis), groups);
    } else {
      same->first += " = " + std::string(axis_name(axis));
    }
  }
  bool first = true;
  for (const auto& [names, groups] : lines) {
    text += fmt::format("{} {}: {}\n", first ? "groups  " : "        ", names, groups);
    first = false;
  }
  return text;
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000.0 && unit + 1 < std::size(kUnits)) {
    value /= 1000.0;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.3g} {}", value, kUnits[unit]);
}

std::string to_text(const Plan& plan) {
  std::string text = layout_text(plan) + batch_text(plan) + levels_text(plan) + data_text(plan);
  if (!plan.model_type.empty()) {
    text += fmt::format("model    {}: {} parameters, {:.3g} TFLOP a step\n", plan.model_type,
                        count_text(plan.parameters), plan.flops_per_step / 1e12);
    text += stages_text(plan) + memory_text(plan) + traffic_text(plan) + matrices_text(plan);
  }
  if (plan.context) text += context_text(*plan.context);
  if (plan.experts) text += experts_text(*plan.experts);
  if (plan.pipeline) text += pipeline_text(*plan.pipeline);
  if (plan.seconds) text += to_text(*plan.seconds);
  return text + ranks_text(plan);
}

}  // namespace tessera
