#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

/// Number of layers of each virtual stage (chunk * stages + rank) such that the ranks have as equal
/// work as whole layers allow, and the chunks of a rank too. `embedding` and `head` are the work of
/// the first and the last virtual stage beside their layers, in units of one layer. Each gets at
/// least one layer; empty where layers < stages * chunks. A layer too many goes to the middle of
/// the model, where it makes the ramps of the pipeline longer neither at its start nor at its end.
std::vector<int64_t> balance_layers(int64_t layers, int64_t stages, int64_t chunks,
                                    double embedding, double head);

/// balance_layers() as entries of `pipeline_parallel_layers_per_stage`, one a rank: "0-1, 4-8".
std::vector<std::string> suggest_balanced_layers(int64_t layers, int64_t stages, int64_t chunks,
                                                 double embedding, double head);

}  // namespace tessera
