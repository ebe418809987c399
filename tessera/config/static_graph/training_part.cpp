// seed, steps, clipping, optimizer and schedule of learning rates.

#include <algorithm>

#include "tessera/config/fields/field.h"
#include "tessera/config/static_graph/parts.h"

namespace tessera::static_graph {
namespace {

bool is_key(const std::string& section, const std::string& name) {
  return find_field(section + "." + canonical_key(section, name)) != nullptr;
}

// Rows of the data: the first of the sizes of Megatron's loader, else what the user said.
int64_t rows_of_data(const Work& work) {
  if (work.samples) return *work.samples;
  const Value* sizes = work.old.peek("train_dataset.data_loader.sizes");
  if (sizes == nullptr || sizes->items.empty()) return 0;
  return parse_int(sizes->items[0].text).value_or(0);
}

void convert_steps(Work& work) {
  const int64_t epochs = work.old.take_int("runner_config.epochs", 1);
  const int64_t rows = rows_of_data(work);
  if (rows < 1) {
    work.change(work.old.peek("runner_config.epochs"),
                "the steps of " + std::to_string(epochs) +
                    " epochs are not known: give the rows of the data with --samples");
    return;
  }
  work.steps = epochs * (rows / work.global_batch);
  work.file.add("training", "steps", std::to_string(work.steps),
                "samples " + std::to_string(rows) + ", passes over them " + std::to_string(epochs));
  if (work.steps < 1) work.change(nullptr, "the data do not hold one step");
}

void convert_clipping(Work& work) {
  Leaves& old = work.old;
  const bool clips = old.take_bool("runner_wrapper.use_clip_grad", false);
  const Value* norm = old.take("runner_wrapper.max_grad_norm");
  work.file.add("training", "max_norm",
                !clips            ? "0.0"
                : norm != nullptr ? flow(*norm)
                                  : "1.0",
                clips ? "" : "no clipping");
  const Value* scale = old.take("runner_wrapper.scale_sense");
  if (scale != nullptr && scale->kind == Value::Kind::kMap) {
    work.change(scale,
                "runner_wrapper.scale_sense: loss scaling is not built; bfloat16 needs none");
  }
}

void convert_optimizer(Work& work) {
  const Value* optimizer = work.old.peek("optimizer");
  if (optimizer == nullptr) return;
  for (const Value::Entry& entry : optimizer->entries) {
    const std::string& key = entry.key;
    if (key == "learning_rate") continue;  // the schedule rules
    if (key == "swap") continue;           // memory only; see comment_on_rest
    work.old.take("optimizer." + key);
    if (!is_key("optimizer", key)) {
      work.change(&entry.value, "optimizer." + key + " has no counterpart");
      continue;
    }
    work.file.add("optimizer", key, flow(entry.value));
  }
}

void convert_schedule(Work& work, const char* section) {
  const Value* schedule = work.old.peek(section);
  const Value* type = schedule->find("type");
  const Value* total = schedule->find("total_steps");
  const int64_t asked =
      total != nullptr && !total->is_null() ? parse_int(total->text).value_or(-1) : -1;
  const bool other_total = asked > 0 && asked != work.steps;
  for (const Value::Entry& entry : schedule->entries) {
    if (entry.value.is_null() || entry.key == "total_steps") continue;
    if (!is_key("lr_scheduler", entry.key)) {
      work.change(&entry.value, std::string(section) + "." + entry.key + " has no counterpart");
    } else if (entry.key == "type" && entry.value.text == "polynomial") {
      work.file.add("lr_scheduler", "type", "PolynomialWithWarmUpLR");
    } else if (entry.key == "warmup_ratio" && other_total) {
      const double ratio = parse_float(entry.value.text).value_or(0.0);
      work.file.add("lr_scheduler", "warmup_steps",
                    std::to_string(static_cast<int64_t>(ratio * static_cast<double>(asked))),
                    "warmup_ratio of total_steps " + std::to_string(asked));
    } else {
      work.file.add("lr_scheduler", entry.key, flow(entry.value));
    }
  }
  const bool lasts = type != nullptr && (type->text == "ConstantWarmUpLR");
  if (other_total && !lasts) {
    work.change(total, "the schedule lasts total_steps = " + std::to_string(asked) +
                           ", which is not the number of steps (" + std::to_string(work.steps) +
                           "): here it lasts as long as the run");
  }
}

void convert_schedules(Work& work) {
  Leaves& old = work.old;
  if (old.peek("lr_schedule") != nullptr) {
    convert_schedule(work, "lr_schedule");
    old.take("lr_schedule");
  }
  const Value* grouped = old.peek("grouped_lr_schedule");
  if (grouped == nullptr) return;
  if (old.peek("lr_schedule") == nullptr && old.peek("grouped_lr_schedule.default") != nullptr) {
    convert_schedule(work, "grouped_lr_schedule.default");
  }
  old.take("grouped_lr_schedule");
  const Value* groups = grouped->find("grouped");
  const Value* usual = grouped->find("default");
  if (groups == nullptr) return;
  for (const Value& group : groups->items) {
    for (const Value::Entry& entry : group.entries) {
      if (entry.key == "params") continue;
      const Value* same = usual != nullptr ? usual->find(entry.key) : nullptr;
      if (same == nullptr || flow(*same) != flow(entry.value)) {
        work.change(&entry.value, "grouped_lr_schedule: a group has another " + entry.key +
                                      "; there is one schedule");
      }
    }
  }
}

}  // namespace

void convert_training(Work& work) {
  Leaves& old = work.old;
  convert_steps(work);
  if (const Value* seed = old.take("seed")) work.file.add("training", "seed", flow(*seed));
  convert_clipping(work);
  if (old.take_bool("train_precision_sync", false)) {
    work.file.add("training", "deterministic", "true");
  }
  convert_optimizer(work);
  convert_schedules(work);
  for (const char* key : {"device_target", "max_device_memory"}) {
    if (const Value* value = old.take(std::string("context.") + key)) {
      work.file.add("context", key, flow(*value));
    }
  }
}

}  // namespace tessera::static_graph
