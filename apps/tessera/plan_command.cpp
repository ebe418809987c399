#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "apps/tessera/commands.h"
#include "tessera/base/error.h"
#include "tessera/base/log.h"
#include "tessera/config/load.h"
#include "tessera/launcher/flags/engine_flags.h"
#include "tessera/launcher/preflight.h"
#include "tessera/planner/machine/machine_file.h"
#include "tessera/planner/plan.h"
#include "tessera/planner/search/elastic_plan.h"
#include "tessera/planner/search/search_text.h"
#include "tessera/planner/seconds/seconds_plan.h"

namespace tessera {
namespace {

const char* name_of(Severity severity) {
  switch (severity) {
    case Severity::kError: return "error";
    case Severity::kWarning: return "warning";
    case Severity::kNote: return "note";
  }
  return "";
}

// {"errors": [{file, line, field, value, rule, nearest}, ...]}, for whoever reads --json.
std::string errors_as_json(const Preflight& checked) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Issue& issue : checked.issues) {
    list.push_back({{"severity", name_of(issue.severity)},
                    {"file", issue.source.file},
                    {"line", issue.source.line},
                    {"field", issue.field},
                    {"value", issue.value},
                    {"rule", issue.rule},
                    {"nearest", issue.nearest}});
  }
  return nlohmann::ordered_json{{"issues", list}}.dump(
             2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

void write_or_throw(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw ConfigError("cannot write " + path);
}

constexpr int64_t kLegalListed = 64;  // ranks up to which --json lists every legal layout

struct PlanFlags {
  std::string config;
  int64_t ranks = 1;
  std::vector<std::string> overrides;
  bool json = false;
  std::string svg;
  std::vector<std::string> machine;
  bool processes = false;
  bool search = false;
  std::optional<int64_t> elastic;
  std::string memory;
  std::string write;
};

Machine machine_to_search(const PlanFlags& flags) {
  std::optional<Machine> machine = find_machine(flags.machine);
  if (machine) return std::move(*machine);
  throw ConfigError(
      "a search needs a machine file: --machine FILE (some are in machines/), or `tessera "
      "calibrate` once for this machine");
}

int search(const PlanFlags& flags) {
  ConfigResult read = load_config(flags.config, flags.overrides);
  if (!read.ok()) throw ConfigError(format_issues(read.issues));
  const Machine machine = machine_to_search(flags);
  const std::string warning = machine_warning(machine);
  if (!warning.empty()) log_warning(warning);
  SearchOptions options;
  options.world = flags.ranks;
  options.provenance = read.provenance;
  options.processes = flags.processes;
  options.list_legal = flags.json && flags.ranks <= kLegalListed;
  options.threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (!flags.memory.empty()) options.memory = bytes_of_flag("--memory", flags.memory);
  if (flags.elastic) {
    print_result(
        to_text(plan_elastic(read.config, machine, options, flags.ranks - *flags.elastic)));
    return 0;
  }
  const SearchResult result = search_layouts(read.config, machine, options);
  if (!flags.write.empty()) {
    write_or_throw(flags.write,
                   to_yaml(found_config(read.config, result.best.front().choice, machine)));
  }
  print_result(flags.json ? to_json(result) : to_text(result));
  return 0;
}

int plan(const PlanFlags& flags) {
  if (flags.search || flags.elastic) return search(flags);
  PreflightOptions options;
  options.world = flags.ranks;
  options.to_run = false;
  const Preflight checked = preflight(flags.config, flags.overrides, options);
  if (flags.json && !checked.ok()) {
    print_result(errors_as_json(checked));
    return static_cast<int>(ExitCode::kConfig);
  }
  report_or_throw(checked, flags.config);
  if (!flags.svg.empty()) write_or_throw(flags.svg, pipeline_svg(checked.config, flags.ranks));
  Plan result = make_plan(checked.config, flags.ranks, flags.processes, checked.data);
  const std::optional<Machine> machine = find_machine(flags.machine);
  if (machine && !result.model_type.empty()) {
    result.seconds = plan_seconds(checked.config, flags.ranks, *machine, flags.processes);
  }
  print_result(flags.json ? to_json(result) : to_text(result));
  return 0;
}

}  // namespace

Command plan_command() {
  const auto flags = std::make_shared<PlanFlags>();
  return {"plan",
          "says without devices what a run will be: layout, batch, memory, bytes; all errors",
          {config_flag(flags->config),
           {.name = "--ranks",
            .value = "N",
            .help = "the world size",
            .target = &flags->ranks,
            .required = true,
            .least = 1},
           override_flag(flags->overrides),
           {.name = "--json",
            .help = "the whole plan, or all errors, as one JSON object",
            .target = &flags->json},
           {.name = "--svg",
            .value = "FILE",
            .help = "writes the timeline of the pipeline to this file",
            .target = &flags->svg,
            .path = true},
           {.name = "--machine",
            .value = "FILE",
            .help = "what the machine does in a second (tessera calibrate, or one of machines/); "
                    "a later file replaces parts of an earlier one",
            .target = &flags->machine,
            .path = true},
           {.name = "--search",
            .help = "finds the layout of these ranks that takes least time; the file's own does "
                    "not count",
            .target = &flags->search},
           {.name = "--memory",
            .value = "BYTES",
            .help = "of --search: what a rank may use, as 80GiB; none: what the machine file says",
            .target = &flags->memory},
           {.name = "--write",
            .value = "FILE",
            .help = "of --search: writes the file with the best layout",
            .target = &flags->write,
            .path = true},
           {.name = "--elastic",
            .value = "K",
            .help = "what would run with up to K ranks less",
            .target = &flags->elastic},
           {.name = "--processes",
            .help = "ranks that share a host are processes, not threads",
            .target = &flags->processes}},
          "Token files or a device that are not there are warnings: a plan needs neither.\n\n"
          "Examples:\n"
          "  tessera plan --config configs/hsdp.yaml --ranks 16\n"
          "  tessera plan --config configs/pp_list.yaml --ranks 8 --svg pipeline.svg\n"
          "  tessera plan --config x.yaml --ranks 8 --set parallelism.tensor_parallel=2 --json\n"
          "  tessera plan --config x.yaml --ranks 64 --machine machines/h100_sxm.yaml\n"
          "  tessera plan --config x.yaml --ranks 64 --search --memory 80GiB --machine "
          "machines/h100_sxm.yaml --write best.yaml",
          [flags] { return plan(*flags); }};
}

}  // namespace tessera
