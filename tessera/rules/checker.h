#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tessera/config/config.h"
#include "tessera/config/family.h"
#include "tessera/config/issue.h"
#include "tessera/config/optimizer_kind.h"
#include "tessera/layout/parallel_dims.h"

namespace tessera {

/// What the rules share: the configuration, where its values came from, and the findings so far.
class Checker {
 public:
  Checker(const Config& config, const Provenance& provenance, std::vector<Issue>& issues,
          const FamilyTable& families = builtin_families(),
          const OptimizerTable& optimizers = builtin_optimizers())
      : config(config),
        families(families),
        optimizers(optimizers),
        provenance_(provenance),
        issues_(issues) {}

  const Config& config;
  const FamilyTable& families;       // that a model may be of
  const OptimizerTable& optimizers;  // that optimizer.type may name
  ParallelDims dims;                 // good only while dims_ok
  bool dims_ok = false;
  bool model_ok = true;  // there is a model of a known family

  /// `path` is a stored key; its value is printed as it is now.
  void error(std::string_view path, std::string rule, std::string nearest = "");
  void warning(std::string_view path, std::string rule, std::string nearest = "");

  /// For an item of a list, path[item].
  void error_at(std::string_view path, int64_t item, std::string value, std::string rule);

  /// About the run as a whole.
  void general(Severity severity, std::string rule);

  /// Whether all of these keys are without an error so far: a rule about several keys judges only
  /// when each of them makes sense.
  bool good(std::initializer_list<std::string_view> paths) const;
  bool given(std::string_view path) const { return provenance_.contains(std::string(path)); }

  /// Adds a key that has no effect in this run to the one line that names them.
  void no_effect(std::string_view path) { without_effect_.emplace_back(path); }
  const std::vector<std::string>& without_effect() const { return without_effect_; }

 private:
  Source source_of(const std::string& path) const;
  void add(Severity severity, std::string_view path, std::string value, std::string rule,
           std::string nearest);

  const Provenance& provenance_;
  std::vector<Issue>& issues_;
  std::set<std::string, std::less<>> bad_;
  std::vector<std::string> without_effect_;
};

// The rules by section. Each reports all that it finds.
void check_single_values(Checker& check);  // choices, bounds, what is refused by itself
void check_model(Checker& check);
void check_attention_kinds(Checker& check);
void check_experts(Checker& check);
void check_tensor_parallel(Checker& check);
void check_context_parallel(Checker& check);
void check_pipeline_parallel(Checker& check);
void check_expert_parallel(Checker& check);
void check_batch(Checker& check);
void check_adapters(Checker& check);
void check_optimizer(Checker& check);
void check_lr_schedule(Checker& check);
void check_dataset(Checker& check);
void check_recompute(Checker& check);
void check_monitors(Checker& check);

/// "1, 2, 4": the divisors of `number` nearest to `asked`, ascending, at most six.
std::string nearest_divisors(int64_t number, int64_t asked);

/// The values nearest to `asked`, ascending, at most six.
std::string nearest_of(std::vector<int64_t> values, int64_t asked);

/// All divisors, ascending.
std::vector<int64_t> divisors(int64_t number);

}  // namespace tessera
