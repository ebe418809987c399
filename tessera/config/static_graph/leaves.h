#pragma once

// The values of a document by their dotted paths, and which of them were carried over.

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/config/yaml/value.h"

namespace tessera::static_graph {

class Leaves {
 public:
  explicit Leaves(const Value& root) : root_(root) {}

  /// Marks the path as carried over; nullptr when it is not there or null.
  const Value* take(std::string_view path);
  /// Without marking it.
  const Value* peek(std::string_view path) const;

  int64_t take_int(std::string_view path, int64_t otherwise);
  bool take_bool(std::string_view path, bool otherwise);
  std::string take_text(std::string_view path);  // empty when it is not there

  struct Leaf {
    std::string path;
    const Value* value;
  };
  /// Scalars and sequences that no take() reached, in the order of the file. Null says nothing.
  std::vector<Leaf> left() const;

 private:
  const Value& root_;
  std::set<std::string, std::less<>> taken_;
};

/// A value on one line as YAML.
std::string flow(const Value& value);

/// "line 12": where a value was written.
std::string line_of(const Value& value);

}  // namespace tessera::static_graph
