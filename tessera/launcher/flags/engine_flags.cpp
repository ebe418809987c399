#include "tessera/launcher/flags/engine_flags.h"

#include "tessera/launcher/program_path.h"

namespace tessera {
namespace {

Flag ranks_flag(RunFlags& flags) {
  return {.name = "--ranks",
          .value = "N",
          .help = "ranks of this process, as threads (without: one; not as a worker)",
          .target = &flags.ranks,
          .least = 1};
}

Flag plant_flag(RunFlags& flags, FlagReader reader) {
  return {.name = "--plant",
          .value = "FAULT",
          .help = "injects a fault into the layout, to see it found (below)",
          .target = &flags.plant,
          .reader = reader};
}

}  // namespace

Flag config_flag(std::string& config) {
  return {.name = "--config",
          .value = "FILE",
          .help = "the configuration, a YAML file",
          .target = &config,
          .required = true,
          .path = true};
}

Flag override_flag(std::vector<std::string>& overrides) {
  return {.name = "--set",
          .value = "section.field=value",
          .help = "replaces one value of the file; repeatable",
          .target = &overrides};
}

std::vector<Flag> flags_of(TrainFlags& flags) {
  return {
      config_flag(flags.config),
      ranks_flag(flags),
      override_flag(flags.overrides),
      {.name = "--dry-run",
       .help = "checks and plans, trains nothing",
       .target = &flags.dry_run,
       .reader = FlagReader::kFront},
      {.name = "--trace",
       .value = "FILE",
       .help = "writes a timeline of the run to this file",
       .target = &flags.trace,
       .path = true},
      plant_flag(flags, FlagReader::kEngine),
  };
}

std::vector<Flag> flags_of(ParityFlags& flags) {
  return {
      config_flag(flags.config),
      ranks_flag(flags),
      override_flag(flags.overrides),
      {.name = "--steps",
       .value = "N",
       .help = "updates to compare",
       .target = &flags.steps,
       .least = 1},
      {.name = "--dtype",
       .value = "DTYPE",
       .help = "of the model and the computation",
       .target = &flags.dtype,
       .legal = {"float64", "float32", "bfloat16"}},
      plant_flag(flags, FlagReader::kBoth),
      {.name = "--json", .help = "writes one JSON object", .target = &flags.json},
  };
}

std::vector<Flag> flags_of(EvaluateFlags& flags) {
  return {
      config_flag(flags.config),
      ranks_flag(flags),
      override_flag(flags.overrides),
      {.name = "--model",
       .value = "FOLDER",
       .help = "a Hugging Face folder; without it and --checkpoint: the file's load_path",
       .target = &flags.model,
       .path = true},
      {.name = "--adapter",
       .value = "FOLDER",
       .help = "low-rank adapters of that model, in PEFT's form",
       .target = &flags.adapter,
       .path = true},
      {.name = "--checkpoint",
       .value = "FOLDER",
       .help = "a checkpoint, or the folder of several: what its pointer names",
       .target = &flags.checkpoint,
       .path = true},
      {.name = "--json", .help = "writes one JSON object", .target = &flags.json},
  };
}

std::vector<Flag> flags_of(ExportFlags& flags) {
  return {
      {.name = "--checkpoint",
       .value = "FOLDER",
       .help = "a checkpoint, or the folder of several: what its pointer names",
       .target = &flags.checkpoint,
       .required = true,
       .path = true},
      {.name = "--output",
       .value = "FOLDER",
       .help = "folder to write; must not be there",
       .target = &flags.output,
       .required = true,
       .path = true},
      {.name = "--dtype",
       .value = "DTYPE",
       .help = "of all weights; without: as they are stored",
       .target = &flags.dtype,
       .legal = {"float64", "float32", "bfloat16", "float16"}},
      {.name = "--tokenizer",
       .value = "FOLDER",
       .help = "whose tokenizer files are copied; without: the run's",
       .target = &flags.tokenizer,
       .path = true},
      {.name = "--adapter",
       .help = "of a run with lora_config: its adapters alone, a folder that PEFT reads",
       .target = &flags.adapter},
      {.name = "--merge",
       .help = "of a run with lora_config: the model with the adapters added to its weights",
       .target = &flags.merge},
      {.name = "--base",
       .value = "FOLDER",
       .help = "the model that the adapters belong to; without: the run's base_load_path",
       .target = &flags.base,
       .path = true},
      {.name = "--shard-bytes",
       .value = "N",
       .help = "largest file",
       .target = &flags.shard_bytes,
       .least = 1},
  };
}

std::vector<Flag> flags_of(CalibrateFlags& flags) {
  return {
      {.name = "--output",
       .value = "FILE",
       .help = "the machine file to write; without: ~/.config/tessera/machine.yaml, where plans "
               "look for it",
       .target = &flags.output,
       .path = true},
      {.name = "--worker-result",
       .value = "FILE",
       .help = "of a process that measures with others: its part",
       .target = &flags.worker_result,
       .path = true,
       .reader = FlagReader::kEngine},
  };
}

std::vector<Flag> flags_of(InspectFlags& flags) {
  return {
      {.name = "path",
       .help = "a .bin/.idx pair, with or without the ending; a checkpoint or the folder of "
               "several; a Hugging Face folder; a .safetensors file",
       .target = &flags.path,
       .required = true,
       .path = true},
      {.name = "--verify",
       .help = "reads every token, or every byte of every file",
       .target = &flags.verify},
      {.name = "--eod",
       .value = "ID",
       .help = "counts this id of a token file (with --verify)",
       .target = &flags.eod,
       .reader = FlagReader::kFront},
  };
}

std::vector<Flag> flags_of(GenerateFlags& flags) {
  return {
      {.name = "--model",
       .value = "FOLDER",
       .help = "a Hugging Face folder",
       .target = &flags.model,
       .path = true},
      {.name = "--adapter",
       .value = "FOLDER",
       .help = "low-rank adapters of that model, in PEFT's form",
       .target = &flags.adapter,
       .path = true},
      {.name = "--checkpoint",
       .value = "FOLDER",
       .help = "a checkpoint, or the folder of several: what its pointer names",
       .target = &flags.checkpoint,
       .path = true},
      {.name = "--config",
       .value = "FILE",
       .help = "a configuration whose checkpoint.load_path names the weights",
       .target = &flags.config,
       .path = true},
      override_flag(flags.overrides),
      {.name = "--ranks",
       .value = "N",
       .help = "ranks, as threads (without: one); --set parallelism.… says how they cut the model",
       .target = &flags.ranks,
       .least = 1},
      {.name = "--prompt",
       .value = "TEXT",
       .help = "what is asked; without it and --input: lines of standard input",
       .target = &flags.prompt},
      {.name = "--input",
       .value = "FILE",
       .help = "prompts: .jsonl with prompt, messages or instruction; else a text a line",
       .target = &flags.input,
       .path = true},
      {.name = "--output",
       .value = "FILE",
       .help = "answers: .jsonl, .json, else a text a line; without: standard output",
       .target = &flags.output,
       .path = true},
      {.name = "--chat",
       .value = "TEMPLATE",
       .help = "prompts are what a user says; auto: the template beside the tokenizer",
       .target = &flags.chat},
      {.name = "--tokenizer",
       .value = "NAME",
       .help = "byte, sentencepiece:MODEL, or a folder; without: the one beside the weights",
       .target = &flags.tokenizer},
      {.name = "--dtype",
       .value = "DTYPE",
       .help = "of weights and computation, with --model and --checkpoint",
       .target = &flags.dtype,
       .legal = {"float64", "float32", "bfloat16"}},
      {.name = "--max-new-tokens",
       .value = "N",
       .help = "longest answer",
       .target = &flags.max_new_tokens,
       .least = 1},
      {.name = "--batch-size",
       .value = "N",
       .help = "answers that grow at once",
       .target = &flags.batch_size,
       .least = 1},
      {.name = "--temperature",
       .value = "X",
       .help = "0: always the most likely token; else tokens are drawn",
       .target = &flags.temperature,
       .most = 1000},
      {.name = "--top-k",
       .value = "N",
       .help = "draws among the N most likely tokens; 0: among all",
       .target = &flags.top_k},
      {.name = "--top-p",
       .value = "X",
       .help = "draws among the fewest tokens that have this probability together",
       .target = &flags.top_p,
       .most = 1},
      {.name = "--min-p",
       .value = "X",
       .help = "draws among tokens with this part of the largest probability",
       .target = &flags.min_p,
       .most = 1},
      {.name = "--repetition-penalty",
       .value = "X",
       .help = "above 1: tokens that stood in the text are less likely",
       .target = &flags.repetition_penalty,
       .most = 1000},
      {.name = "--seed", .value = "N", .help = "of the draws", .target = &flags.seed},
      {.name = "--stop",
       .value = "TEXT",
       .help = "ends an answer, which is cut in front of it; repeatable",
       .target = &flags.stop},
  };
}

std::vector<std::string> engine_command(const std::string& command,
                                        const std::vector<Flag>& flags) {
  std::vector<std::string> list = {sibling_program("tessera-engine"), command};
  for (std::string& argument : engine_arguments(flags)) list.push_back(std::move(argument));
  return list;
}

}  // namespace tessera
