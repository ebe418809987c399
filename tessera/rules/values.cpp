// Rules of single values, out of the table of fields.

#include <algorithm>

#include "tessera/config/fields/field.h"
#include "tessera/config/fields/field_rules.h"
#include "tessera/rules/checker.h"

namespace tessera {
namespace {

// Values that the reference knows and that are not built here.
struct Unbuilt {
  std::string_view path;
  std::string_view value;
};
constexpr Unbuilt kUnbuilt[] = {
    {"train_dataset.dataloader.type", "MindDataset"},
    {"train_dataset.dataloader.type", "OrderedIndexDataLoader"},
};

// An empty string in place of a choice means that the key is missing; rules of the section say so.
void check_choice(Checker& check, const Field& field, const std::string& value) {
  if (value.empty() || is_choice(field, value)) return;
  for (const Unbuilt& unbuilt : kUnbuilt) {
    if (unbuilt.path == field.path && unbuilt.value == value) {
      check.error(field.path, value + " is not built; " + choice_rule(field));
      return;
    }
  }
  check.error(field.path, choice_rule(field), nearest_choice(field, value));
}

template <typename T>
const T* member(const Field& field, const Config& config) {
  return field.type == &field_type<T>() ? static_cast<const T*>(field.address_in(config)) : nullptr;
}

void check_bounds(Checker& check, const Field& field) {
  const Config& config = check.config;
  double value = 0.0;
  if (const auto* number = member<int64_t>(field, config)) {
    value = static_cast<double>(*number);
  } else if (const auto* real = member<double>(field, config)) {
    value = *real;
  } else if (const auto* maybe = member<std::optional<int64_t>>(field, config)) {
    if (!*maybe) return;
    value = static_cast<double>(**maybe);
  } else if (const auto* maybe_real = member<std::optional<double>>(field, config)) {
    if (!*maybe_real) return;
    value = **maybe_real;
  } else {
    return;
  }
  if (!in_bounds(field, value)) check.error(field.path, bounds_rule(field));
}

// Keys that are left out and then follow from others: what is wrong with them is said of those.
struct Derived {
  std::string_view path;
  std::string_view from;
};
constexpr Derived kDerived[] = {
    {"lr_scheduler.base_lr", "lr_scheduler.learning_rate"},
    {"lr_scheduler.t_max", "training.steps"},
    {"lr_scheduler.lr_end2", "lr_scheduler.lr_end1"},
    {"model.num_key_value_heads", "model.num_attention_heads"},
    {"model.head_dim", "model.hidden_size"},
    {"model.head_dim", "model.num_attention_heads"},
    {"model.moe_intermediate_size", "model.intermediate_size"},
    {"model.moe_shared_expert_intermediate_size", "model.moe_intermediate_size"},
    {"model.moe_shared_expert_intermediate_size", "model.n_shared_experts"},
    {"model.moe_shared_expert_intermediate_size", "model.intermediate_size"},
    {"model.seq_length", "train_dataset.dataloader.config.seq_length"},
    {"model.rope_scaling.factor", "model.rotary_scaling_factor"},
    {"model.rope_scaling.beta_fast", "model.beta_fast"},
    {"model.rope_scaling.beta_slow", "model.beta_slow"},
    {"model.rope_scaling.mscale", "model.mscale"},
    {"model.rope_scaling.mscale_all_dim", "model.mscale_all_dim"},
    {"model.rope_scaling.original_max_position_embeddings", "model.max_position_embeddings"},
};

bool is_told_elsewhere(const Checker& check, std::string_view path) {
  return !check.given(path) && std::ranges::any_of(kDerived, [&](const Derived& derived) {
    return derived.path == path && !check.good({derived.from});
  });
}

void check_bounds_of(Checker& check, const Field& field) {
  static const Config defaults;
  // A default outside the bounds stands for a key that is missing; its section's rules say so.
  const bool is_default =
      field.type->equal(field.address_in(check.config), field.address_in(defaults));
  if (is_default && !check.given(field.path)) return;
  if (!is_told_elsewhere(check, field.path)) check_bounds(check, field);
}

}  // namespace

void check_single_values(Checker& check) {
  static const Config defaults;
  for (const bool given : {true, false}) {  // what is written is judged before what follows from it
    for (const Field& field : all_fields()) {
      if (field.address && check.given(field.path) == given) check_bounds_of(check, field);
    }
  }
  for (const Field& field : all_fields()) {
    if (field.address) {
      if (const auto* text = member<std::string>(field, check.config);
          text && !field.choices.empty()) {
        check_choice(check, field, *text);
      }
    }
    const bool is_default = !field.address || field.type->equal(field.address_in(check.config),
                                                                field.address_in(defaults));
    switch (field.effect) {
      case Effect::kHonoured:
      case Effect::kReserved: break;
      case Effect::kNoEffect:
        if (check.given(field.path)) check.no_effect(field.path);
        break;
      case Effect::kFixed:
        if (!is_default) check.no_effect(field.path);
        break;
      case Effect::kRefused:
        if (!is_default) {
          check.error(field.path, unbuilt_rule(field) + "; only " +
                                      field.type->write(field.address_in(defaults)) +
                                      " is accepted");
        }
        break;
    }
  }
  const auto& prefix = check.config.checkpoint.prefix;
  if (prefix && (prefix->size() > 200 || prefix->find('/') != std::string::npos)) {
    check.error("checkpoint.prefix", "starts names of files: no '/', at most 200 characters");
  }
}

}  // namespace tessera
