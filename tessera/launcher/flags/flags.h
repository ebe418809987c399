#pragma once

// What a command line may hold. A command states its flags once, as a list: the front and the
// engine read by it, help is written from it, and the front writes the engine's command line by it.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tessera {

/// Which program takes a flag. What only the front takes is not passed on to the engine.
enum class FlagReader { kBoth, kFront, kEngine };

struct Flag {
  using Target = std::variant<bool*, int*, int64_t*, uint64_t*, std::optional<int64_t>*, double*,
                              std::string*, std::vector<std::string>*>;

  std::string name{};   // "--config"; without dashes: an argument that stands alone, such as "path"
  std::string value{};  // what help calls its value: FILE; empty: a switch, which has none
  std::string help{};
  Target target{};  // holds the default before, and what was given after; outlives the flag
  bool required = false;
  bool path = false;                 // ~ and $NAME are expanded
  bool many = false;                 // of a list: takes all arguments up to the next flag
  bool may_be_empty = false;         // --flag= is as if it were not given
  std::vector<std::string> legal{};  // of a text; empty: any
  int64_t least = 0;                 // of a number
  int64_t most = int64_t{1} << 40;
  FlagReader reader = FlagReader::kBoth;
};

struct FlagRules {
  bool last_counts = false;  // of a flag that is given twice; else that is refused
  /// Flags that no list holds; each has a value. Null: they are refused.
  std::vector<std::string>* unknown = nullptr;
  /// Takes what follows from the first argument on that stands alone. Null: nothing does.
  std::vector<std::string>* rest = nullptr;
};

/// What is wrong with a command line; each problem names its flag.
struct FlagProblems {
  std::vector<std::string> texts;
  bool help = false;  // --help or -h was given: nothing else counts
};

/// Reads `arguments` into the targets. A flag is written --name=value or --name value, a switch
/// --name. A value that is empty, or is the next flag, is missing. After -- no flags follow.
FlagProblems read_flags(const std::vector<Flag>& flags, const std::vector<std::string>& arguments,
                        const FlagRules& rules = {});

/// The same for a command called `program`. True when help was asked for. Throws ConfigError with
/// the first problem, in one line.
bool parse_flags(const std::vector<Flag>& flags, const std::vector<std::string>& arguments,
                 const std::string& program, const FlagRules& rules = {});

/// The arguments from which the engine reads the same values.
std::vector<std::string> engine_arguments(const std::vector<Flag>& flags);

/// `path` with ~ and $NAME expanded. Throws ConfigError that names the flag.
std::string path_of_flag(const std::string& flag, const std::string& path);

/// The help text of a command: what it does, its flags with their defaults, `end` (examples).
std::string flag_help(const std::string& program, const std::string& does,
                      const std::vector<Flag>& flags, const std::string& end);

}  // namespace tessera
