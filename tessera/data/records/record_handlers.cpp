#include "tessera/data/records/record_handlers.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <numeric>
#include <optional>

#include "tessera/base/error.h"
#include "tessera/data/random_state.h"

namespace tessera {

namespace {

using OnRecord = std::function<bool(Record&&)>;

// Arguments of one handler, each of which must be asked for.
class Arguments {
 public:
  explicit Arguments(const RecordHandler& handler) : handler_(handler) {}

  const std::vector<std::string>& list(const std::string& name) {
    const auto found = handler_.args.find(name);
    if (found == handler_.args.end()) refuse("needs " + name);
    asked_.push_back(name);
    return found->second;
  }
  std::string text(const std::string& name) {
    const std::vector<std::string>& values = list(name);
    if (values.size() != 1) refuse(name + " must be one value");
    return values[0];
  }
  int64_t number(const std::string& name) { return to_number(name, text(name)); }
  int64_t number(const std::string& name, int64_t absent) {
    return handler_.args.contains(name) ? number(name) : absent;
  }
  std::vector<int64_t> numbers(const std::string& name) {
    std::vector<int64_t> values;
    for (const std::string& value : list(name)) values.push_back(to_number(name, value));
    return values;
  }
  void done() const {
    for (const auto& [name, values] : handler_.args) {
      if (std::ranges::find(asked_, name) == asked_.end()) refuse("does not know " + name);
    }
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw ConfigError("handler " + handler_.type + " " + why);
  }

 private:
  int64_t to_number(const std::string& name, const std::string& value) const {
    int64_t number = 0;
    const auto end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, number);
    if (error != std::errc{} || stop != end || number < 0) {
      refuse(name + " must be an integer, at least 0, not " + value);
    }
    return number;
  }

  const RecordHandler& handler_;
  std::vector<std::string> asked_;
};

// Handles rows one by one; end() is called when no more come.
class Step {
 public:
  virtual ~Step() = default;
  virtual bool add(Record&& record, const OnRecord& next) = 0;
  virtual void end(const OnRecord&) {}
};

class Take : public Step {
 public:
  explicit Take(int64_t count) : left_(count) {}
  bool add(Record&& record, const OnRecord& next) override {
    if (left_ <= 0) return false;
    return next(std::move(record)) && --left_ > 0;
  }

 private:
  int64_t left_;
};

class Rename : public Step {
 public:
  Rename(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {}
  bool add(Record&& record, const OnRecord& next) override {
    const auto found = record.columns.find(from_);
    if (found == record.columns.end()) {
      record.place.why = "no column " + from_ + " to rename";
      throw ConfigError(to_string(record.place));
    }
    nlohmann::json value = std::move(*found);
    record.columns.erase(from_);
    record.columns[to_] = std::move(value);
    return next(std::move(record));
  }

 private:
  std::string from_, to_;
};

class Remove : public Step {
 public:
  explicit Remove(std::vector<std::string> names) : names_(std::move(names)) {}
  bool add(Record&& record, const OnRecord& next) override {
    for (const std::string& name : names_) {
      if (record.columns.erase(name) == 0) {
        record.place.why = "no column " + name + " to remove";
        throw ConfigError(to_string(record.place));
      }
    }
    return next(std::move(record));
  }

 private:
  std::vector<std::string> names_;
};

// Rows in another order: by a seed, or those of some numbers.
class Reorder : public Step {
 public:
  explicit Reorder(int64_t seed) : seed_(seed) {}
  explicit Reorder(std::vector<int64_t> chosen) : chosen_(std::move(chosen)) {}
  bool add(Record&& record, const OnRecord&) override {
    rows_.push_back(std::move(record));
    return true;
  }
  void end(const OnRecord& next) override {
    if (seed_) {
      chosen_.resize(rows_.size());
      std::iota(chosen_.begin(), chosen_.end(), int64_t{0});
      RandomState(*seed_).shuffle(std::span(chosen_));
    }
    for (const int64_t row : chosen_) {
      if (row >= static_cast<int64_t>(rows_.size())) {
        throw ConfigError(
            detail::concat("handler select: index ", row, " of ", rows_.size(), " rows"));
      }
      Record copy = rows_[static_cast<size_t>(row)];
      if (!next(std::move(copy))) return;
    }
  }

 private:
  std::optional<int64_t> seed_;
  std::vector<int64_t> chosen_;
  std::vector<Record> rows_;
};

std::unique_ptr<Step> make_step(const RecordHandler& handler) {
  Arguments args(handler);
  std::unique_ptr<Step> step;
  if (handler.type == "take") {
    step = std::make_unique<Take>(args.number("n"));
  } else if (handler.type == "select") {
    step = std::make_unique<Reorder>(args.numbers("indices"));
  } else if (handler.type == "shuffle") {
    step = std::make_unique<Reorder>(args.number("seed", 0));
  } else if (handler.type == "rename_column") {
    const std::string from = args.text("original_column_name");
    step = std::make_unique<Rename>(from, args.text("new_column_name"));
  } else if (handler.type == "remove_columns") {
    step = std::make_unique<Remove>(args.list("column_names"));
  } else if (handler.type == "AlpacaInstructDataHandler" || handler.type == "PackingHandler") {
    return nullptr;
  } else {
    throw ConfigError("handler " + handler.type +
                      ": must be one of take, select, shuffle, rename_column, remove_columns, "
                      "AlpacaInstructDataHandler, PackingHandler");
  }
  args.done();
  return step;
}

}  // namespace

void handled_records(const std::string& kind, const std::vector<std::string>& files,
                     const std::vector<RecordHandler>& handlers, const OnRecord& on_record) {
  std::vector<std::unique_ptr<Step>> steps;
  for (const RecordHandler& handler : handlers) {
    if (auto step = make_step(handler)) steps.push_back(std::move(step));
  }
  std::vector<OnRecord> from(steps.size() + 1);  // from[i] hands a row to step i
  from.back() = on_record;
  for (size_t i = steps.size(); i-- > 0;) {
    from[i] = [step = steps[i].get(), next = from[i + 1]](Record&& record) {
      return step->add(std::move(record), next);
    };
  }
  bool more = true;
  for (const std::string& file : files) {
    if (!more) break;
    read_records(kind, file, [&](Record&& record) {
      more = from[0](std::move(record));
      return more;
    });
  }
  for (size_t i = 0; i < steps.size(); ++i) steps[i]->end(from[i + 1]);
}

}  // namespace tessera
