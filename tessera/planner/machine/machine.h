#pragma once

// What a machine does in a second, as a machine file says it (docs/plan.md): measured by `tessera
// calibrate`, or a profile whose numbers were published by others.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"

namespace tessera {

/// A function of one number that was taken at some places: between them it goes straight in the
/// logarithm of both, beyond them it stays as it is at the end.
struct Curve {
  struct Point {
    double at = 0.0;
    double value = 0.0;
    bool operator==(const Point&) const = default;
  };
  std::vector<Point> points;  // ascending, at least one

  double operator()(double at) const;
  bool operator==(const Curve&) const = default;
};

/// How fast one dtype is computed with. Operations are multiplications and additions.
struct ComputeRates {
  double peak = 0.0;          // operations a second: the maker's number, or the fastest measured
  Curve products;             // share of peak, by the cube root of rows x in x out
  double attention = 0.0;     // operations a second of the forward of attention
  double attention_back = 0;  // and of its backward
  bool operator==(const ComputeRates&) const = default;
};

/// What ranks talk over.
struct Link {
  std::string name;        // "NVLink", "InfiniBand NDR", "shared memory"
  double bandwidth = 0.0;  // bytes that a rank sends in a second
  double latency = 0.0;    // seconds of a message between two ranks
  bool operator==(const Link&) const = default;
};

/// A measured collective: seconds by the bytes that a rank sends in it.
struct CollectiveTimes {
  std::string transport;  // "threads" or "processes"
  std::string operation;  // as TrafficPlan names it
  int64_t ranks = 0;      // of the group
  Curve seconds;
  bool operator==(const CollectiveTimes&) const = default;
};

struct Machine {
  std::string name;
  bool measured = false;
  std::string host;      // of a measured machine: see machine_description
  bool devices = false;  // ranks compute on devices of their own; else they share `cores`
  int64_t cores = 0;
  int64_t node_ranks = 0;                 // ranks of a node; 0: all of them
  double memory = 0.0;                    // bytes that a rank may use
  double memory_bandwidth = 0.0;          // bytes a second, read and written, of one rank
  double call = 0.0;                      // seconds that an operation costs beside its work
  bool overlap = false;                   // messages travel while a rank computes
  double fusion = 1.0;                    // share of the bytes of operations without products
  Curve sharing;                          // slow-down of a rank while so many compute at a time
  std::map<DType, ComputeRates> compute;  // by dtype
  Link in_node, between;                  // ranks of one node; of several
  std::vector<CollectiveTimes> collectives;
  double disk_bandwidth = 0.0;  // bytes a second that all ranks of a node write; 0: not known
  double load_token = 0.0;      // seconds that a rank's loader takes for a token
  bool operator==(const Machine&) const = default;

  /// The rates of `dtype`; where the file has none, those of the widest dtype that it has.
  const ComputeRates& rates(DType dtype) const;
};

}  // namespace tessera
