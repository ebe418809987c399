#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/config/fields/field_type.h"

namespace tessera {

/// What becomes of a key that the reader knows.
enum class Effect {
  kHonoured,
  kNoEffect,  // accepted; named once in one line when given
  kReserved,  // accepted; what happens is derived, one warning when it asks for something else
  kFixed,     // accepted; named in that line when it asks for something else than what happens
  kRefused,   // only its default is accepted: what it asks for is not built
};

/// One key of the file. The table of all of them is what the reader, "did you mean", the writer,
/// the rules for single values and docs/config.md are made of.
struct Field {
  std::string_view path = {};  // "training.steps"
  const FieldType* type = nullptr;
  void* (*address)(Config&) = nullptr;  // nullptr: typed, not stored
  Effect effect = Effect::kHonoured;
  std::string_view doc = {};
  std::string_view choices = {};  // "a, b, c": the legal strings
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool exclusive = false;         // minimum and maximum are not legal themselves
  bool lower_case = false;        // strings are read in lower case
  bool is_path = false;           // strings are paths: `~/` and variables are expanded
  std::string_view part_of = {};  // kRefused: what it belongs to and is not built

  Field&& one_of(std::string_view list) && {
    choices = list;
    return std::move(*this);
  }
  Field&& any_case() && {
    lower_case = true;
    return std::move(*this);
  }
  Field&& path_of_files() && {
    is_path = true;
    return std::move(*this);
  }
  Field&& refused() && {
    effect = Effect::kRefused;
    return std::move(*this);
  }
  /// Refused as long as `what` ("DeepSeek-V4"), which it belongs to, is not built.
  Field&& not_built(std::string_view what) && {
    effect = Effect::kRefused;
    part_of = what;
    return std::move(*this);
  }
  /// Under another path than the member's.
  Field&& called(std::string_view name) && {
    path = name;
    return std::move(*this);
  }
  Field&& at_least(double low) && {
    minimum = low;
    return std::move(*this);
  }
  Field&& between(double low, double high) && {
    minimum = low;
    maximum = high;
    return std::move(*this);
  }
  Field&& above(double low) && {
    minimum = low;
    exclusive = true;
    return std::move(*this);
  }

  const void* address_in(const Config& config) const {
    return address ? address(const_cast<Config&>(config)) : nullptr;
  }
};

/// Every key, section by section in the order of docs/config.md.
const std::vector<Field>& all_fields();

/// nullptr: no such key. Paths use the first name of a key, see canonical_key.
const Field* find_field(std::string_view path);

/// Whether `path` is a section ("training", "train_dataset.dataloader.config").
bool is_section(std::string_view path);

/// Names directly below a section, keys and sections, second names included.
std::vector<std::string> names_in(std::string_view section);

/// Some keys of `model` have several names (num_experts is n_routed_experts). The first name of
/// `name` in `section`, which is `name` itself for most.
std::string canonical_key(std::string_view section, std::string_view name);

/// Second names and what they stand for, in `model` and its subsections: {section, name, first}.
struct Alias {
  std::string_view section;
  std::string_view name;
  std::string_view first;
};
const std::vector<Alias>& all_aliases();

// The tables by section; all_fields() joins them.
std::vector<Field> run_fields();  // checkpoint, training
std::vector<Field> parallelism_fields();
std::vector<Field> optimizer_fields();  // optimizer, lr_scheduler
std::vector<Field> dataset_fields();
std::vector<Field> model_fields();
std::vector<Field> moe_fields();        // model: experts and multi-token prediction
std::vector<Field> memory_fields();     // recompute, recompute_comm, swap
std::vector<Field> observe_fields();    // monitor, profiler, callbacks, context, lora_config, top
std::vector<Field> inference_fields();  // inference, run_mode
std::vector<Field> unbuilt_fields();    // all sections: keys of what is not built

}  // namespace tessera

// A stored key. The member is the path: TESSERA_FIELD(training.steps, kHonoured, "doc").
#define TESSERA_FIELD(member, effect_, doc_) \
  TESSERA_FIELD_AS(member, decltype(std::declval<::tessera::Config&>().member), effect_, doc_)

// The same, read in another way than the member's type tells.
#define TESSERA_FIELD_AS(member, type_, effect_, doc_)                            \
  ::tessera::Field {                                                              \
    .path = #member, .type = &::tessera::field_type<type_>(),                     \
    .address = [](::tessera::Config& config) -> void* { return &config.member; }, \
    .effect = ::tessera::Effect::effect_, .doc = doc_                             \
  }

// A key that is only checked for its type.
#define TESSERA_UNUSED_FIELD(path_, type_, doc_)            \
  ::tessera::Field {                                        \
    .path = path_, .type = &::tessera::field_type<type_>(), \
    .effect = ::tessera::Effect::kNoEffect, .doc = doc_     \
  }
