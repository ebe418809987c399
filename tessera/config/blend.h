#pragma once

#include <string>
#include <vector>

namespace tessera {

/// Token files and their weights; no weights: in proportion to their lengths.
struct Blend {
  std::vector<std::string> prefixes;
  std::vector<double> weights;  // as many as prefixes, or none
};

/// Reads a data_path list: of even length with a number in every even place it is
/// [weight, prefix, ...], without any it is a list of prefixes, as is every list of odd length.
/// What is wrong is written to `problem`.
Blend parse_blend(const std::vector<std::string>& list, std::string& problem);

/// The parts of train, valid and test in a split, one to three: "90,5,5" or "[949,50,1]". The first
/// is positive, none is negative; what is wrong is written to `problem`.
std::vector<double> parse_split(const std::string& split, std::string& problem);

}  // namespace tessera
