#pragma once

// A family of models is a row of a table: all that differs between families is in the row, and
// nothing else of the program knows their names. The table is handed to whoever reads a file.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/layer_design.h"
#include "tessera/config/model_config.h"
#include "tessera/config/row_table.h"

namespace tessera {

/// A key of the file, "model.head_dim", and a value as YAML spells it.
struct FieldText {
  std::string_view path;
  std::string_view text;
};

/// A key that has one legal value in every model of a family.
struct FixedField {
  std::string_view path;
  std::string_view text;
  std::string_view reason;  // ends the message: "must be TEXT for FAMILY; REASON"
  bool only_warn = false;   // another value is named in a warning and replaced, else an error
};

struct Family {
  std::string model_type;    // qwen3
  std::string architecture;  // Qwen3ForCausalLM

  LayerDesign design;
  bool has_experts = false;  // model.n_routed_experts is needed; else it must be 0

  /// What a model section that says nothing means: the family's column of MindFormers' defaults,
  /// dropouts 0, no multi-token prediction. Agrees with `fixed`.
  ModelConfig defaults;
  std::vector<FixedField> fixed;

  /// What transformers takes for keys that a config.json leaves out, where `defaults` differ.
  std::vector<FieldText> hf_defaults;
  /// Keys of ours that a config.json does not spell but its family fixes.
  std::vector<FieldText> hf_implied;
  /// Keys of its config.json beside those that every family has (config/hf_config_writer.cpp).
  std::vector<std::string_view> hf_keys;
};

/// Families by name.
class FamilyTable : public RowTable<Family> {
 public:
  using RowTable::RowTable;

  /// nullptr when there is none of that name.
  std::shared_ptr<const Family> find(std::string_view model_type) const;
  std::shared_ptr<const Family> find_architecture(std::string_view architecture) const;

  /// The same families and one more.
  FamilyTable with(Family row) const;

  /// "llama, qwen3": the legal values of model.model_type and of model.architectures.
  std::string names() const;
  std::string architectures() const;
};

/// The families that the program knows by itself (config/families/).
const FamilyTable& builtin_families();

/// The defaults of `family` with the reference to its row.
ModelConfig family_defaults(const std::shared_ptr<const Family>& family);

}  // namespace tessera
