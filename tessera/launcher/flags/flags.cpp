#include "tessera/launcher/flags/flags.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/config/expand_path.h"
#include "tessera/config/fields/field_type.h"
#include "tessera/config/yaml/value.h"
#include "tessera/launcher/flags/flag_hint.h"

namespace tessera {
namespace {

bool stands_alone(const Flag& flag) { return !flag.name.starts_with("-"); }
bool is_switch(const Flag& flag) { return std::holds_alternative<bool*>(flag.target); }
bool is_list(const Flag& flag) {
  return std::holds_alternative<std::vector<std::string>*>(flag.target);
}

// "-" is standard input, -1 a number.
bool is_flag(const std::string& argument) {
  return argument.size() > 1 && argument[0] == '-' && (argument[1] < '0' || argument[1] > '9');
}

std::string range_text(const Flag& flag) {
  if (flag.most == Flag().most) return "at least " + std::to_string(flag.least);
  return std::to_string(flag.least) + " to " + std::to_string(flag.most);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

class Reader {
 public:
  Reader(const std::vector<Flag>& flags, const std::vector<std::string>& arguments,
         const FlagRules& rules)
      : flags_(flags), arguments_(arguments), rules_(rules), times_(flags.size(), 0) {}

  FlagProblems run() {
    while (at_ < arguments_.size()) {
      const std::string& argument = arguments_[at_++];
      if (argument == "--help" || argument == "-h") {
        problems_.help = true;
        return problems_;
      }
      if (argument == "--" && rules_.rest == nullptr) {
        while (at_ < arguments_.size()) read_alone(arguments_[at_++]);
      } else if (is_flag(argument)) {
        read_flag(argument);
      } else if (rules_.rest != nullptr) {
        const auto first = arguments_.begin() + static_cast<std::ptrdiff_t>(at_ - 1);
        rules_.rest->assign(first, arguments_.end());
        break;
      } else {
        read_alone(argument);
      }
    }
    for (size_t i = 0; i < flags_.size(); ++i) {
      if (flags_[i].required && times_[i] == 0 && !faulty(flags_[i].name)) {
        problem(flags_[i].name + (stands_alone(flags_[i]) ? "" : " " + flags_[i].value) +
                " is missing");
      }
    }
    return problems_;
  }

 private:
  void problem(const std::string& text) { problems_.texts.push_back(text); }

  // Whether something was said of this flag already.
  bool faulty(const std::string& name) const {
    return std::ranges::any_of(problems_.texts,
                               [&](const std::string& text) { return text.starts_with(name); });
  }

  void read_flag(const std::string& argument) {
    const size_t equal = argument.find('=');
    const std::string name = argument.substr(0, equal);
    std::optional<std::string> value;
    if (equal != std::string::npos) value = argument.substr(equal + 1);
    const auto flag = std::ranges::find(flags_, name, &Flag::name);
    if (flag == flags_.end()) return read_unknown(name, value);
    if (is_switch(*flag)) {
      if (value) return problem(name + "=" + *value + ": this flag has no value");
      times_[static_cast<size_t>(flag - flags_.begin())] += 1;
      *std::get<bool*>(flag->target) = true;
      return;
    }
    if (!value) {
      if (at_ == arguments_.size()) return problem(name + " " + flag->value + ": has no value");
      if (is_flag(arguments_[at_])) {
        return problem(name + " " + flag->value + ": has no value; the next flag follows, " +
                       arguments_[at_]);
      }
      value = arguments_[at_++];
    }
    take(*flag, *value);
    while (flag->many && at_ < arguments_.size() && !is_flag(arguments_[at_])) {
      take(*flag, arguments_[at_++]);
    }
  }

  void read_unknown(const std::string& name, const std::optional<std::string>& value) {
    if (rules_.unknown == nullptr) {
      std::vector<std::string> known;
      for (const Flag& flag : flags_) known.push_back(flag.name);
      return problem(name + ": there is no such flag" + word_hint(name, known));
    }
    if (!value) {
      if (at_ == arguments_.size() || is_flag(arguments_[at_])) {
        return problem(name + ": has no value");
      }
      ++at_;
    }
    if (std::ranges::find(*rules_.unknown, name) == rules_.unknown->end()) {
      rules_.unknown->push_back(name);
    }
  }

  void read_alone(const std::string& argument) {
    for (size_t i = 0; i < flags_.size(); ++i) {
      if (stands_alone(flags_[i]) && times_[i] == 0) return take(flags_[i], argument);
    }
    problem((argument.empty() ? "\"\"" : argument) + ": a value without a flag");
  }

  void take(const Flag& flag, const std::string& value) {
    if (value.empty()) {
      if (!flag.may_be_empty) problem(flag.name + "=: has no value");
      return;
    }
    int& times = times_[static_cast<size_t>(&flag - flags_.data())];
    if (++times > 1 && !is_list(flag) && !rules_.last_counts) {
      return problem(flag.name + " is given more than once");
    }
    std::visit([&](auto* target) { set(flag, target, value); }, flag.target);
  }

  void set(const Flag&, bool*, const std::string&) {}  // switches are done above

  template <typename Number>
  void set(const Flag& flag, Number* target, const std::string& value) {
    int64_t number = 0;
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, number);
    if (error != std::errc() || stop != end || number < flag.least || number > flag.most ||
        !std::in_range<Number>(number)) {
      return problem(flag.name + "=" + value + ": must be a whole number, " + range_text(flag));
    }
    *target = static_cast<Number>(number);
  }

  void set(const Flag& flag, std::optional<int64_t>* target, const std::string& value) {
    int64_t number = flag.least;
    set(flag, &number, value);
    *target = number;
  }

  void set(const Flag& flag, double* target, const std::string& value) {
    const std::optional<double> number = parse_float(value);
    if (!number || !(*number >= static_cast<double>(flag.least)) ||
        !(*number <= static_cast<double>(flag.most))) {
      return problem(flag.name + "=" + value + ": must be a number, " + range_text(flag));
    }
    *target = *number;
  }

  void set(const Flag& flag, std::string* target, const std::string& value) {
    if (!flag.legal.empty() && std::ranges::find(flag.legal, value) == flag.legal.end()) {
      return problem(flag.name + "=" + value + ": legal are " + joined(flag.legal) +
                     word_hint(value, flag.legal));
    }
    *target = path(flag, value);
  }

  void set(const Flag& flag, std::vector<std::string>* target, const std::string& value) {
    target->push_back(path(flag, value));
  }

  std::string path(const Flag& flag, const std::string& value) {
    if (!flag.path) return value;
    std::string refused;
    const std::string expanded = expand_path(value, refused);
    if (!refused.empty()) problem(flag.name + "=" + value + ": " + refused);
    return expanded;
  }

  const std::vector<Flag>& flags_;
  const std::vector<std::string>& arguments_;
  const FlagRules& rules_;
  std::vector<int> times_;  // each flag was given
  size_t at_ = 0;
  FlagProblems problems_;
};

// --name value; where the value looks like a flag, --name=value.
void append(std::vector<std::string>& list, const Flag& flag, std::string value) {
  if (flag.path) value = unexpanded(value);
  if (stands_alone(flag)) {
    list.push_back(is_flag(value) ? "./" + value : value);
  } else if (is_flag(value)) {
    list.push_back(flag.name + "=" + value);
  } else {
    list.insert(list.end(), {flag.name, value});
  }
}

// Writes what a flag holds to the end of `list`.
struct Writer {
  const Flag& flag;
  std::vector<std::string>& list;

  void operator()(const bool* on) const {
    if (*on) list.push_back(flag.name);
  }
  void operator()(const std::string* text) const {
    if (!text->empty()) append(list, flag, *text);
  }
  void operator()(const std::vector<std::string>* texts) const {
    for (const std::string& text : *texts) append(list, flag, text);
  }
  void operator()(const std::optional<int64_t>* number) const {
    if (*number) append(list, flag, std::to_string(**number));
  }
  void operator()(const double* number) const { append(list, flag, write_float(*number)); }
  template <typename Number>
  void operator()(const Number* number) const {
    append(list, flag, std::to_string(*number));
  }
};

}  // namespace

FlagProblems read_flags(const std::vector<Flag>& flags, const std::vector<std::string>& arguments,
                        const FlagRules& rules) {
  return Reader(flags, arguments, rules).run();
}

bool parse_flags(const std::vector<Flag>& flags, const std::vector<std::string>& arguments,
                 const std::string& program, const FlagRules& rules) {
  const FlagProblems problems = read_flags(flags, arguments, rules);
  if (problems.help) return true;
  if (problems.texts.empty()) return false;
  throw ConfigError(program + ": " + problems.texts.front() + " (see " + program + " --help)");
}

std::vector<std::string> engine_arguments(const std::vector<Flag>& flags) {
  std::vector<std::string> list;
  for (const Flag& flag : flags) {
    if (flag.reader != FlagReader::kFront) std::visit(Writer{flag, list}, flag.target);
  }
  return list;
}

std::string path_of_flag(const std::string& flag, const std::string& path) {
  std::string problem;
  std::string expanded = expand_path(path, problem);
  if (!problem.empty()) throw ConfigError(flag + "=" + path + ": " + problem);
  return expanded;
}

}  // namespace tessera
