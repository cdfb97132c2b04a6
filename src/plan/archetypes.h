#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "plan/facts.h"

namespace passnet {

/// What the recognisers look at: the graphs of a sample and its longest predicted eager time (µs, harness
/// excluded).
struct SampleShape {
  std::span<const GraphFacts* const> graphs;
  double eager_us = 0;
};

/// One row of the strategy tables: a shape of graph and what to do about it.
struct Archetype {
  std::string_view id;
  std::string_view source;  ///< which table and row of the written strategy it is
  std::string_view looks;   ///< what the graph looks like
  std::string_view strategy;
  std::string_view family;  ///< label under which a round triages and aggregates it
  int priority = 0;         ///< 1 is tried first; several rows may fit one sample
  bool (*recognise)(const SampleShape&) = nullptr;
};

std::span<const Archetype> archetypes();

struct ArchetypeMatch {
  const Archetype* archetype = nullptr;
};

/// All rows that fit, by priority. The triage family of a sample is the family of the first; every sample has
/// one.
std::vector<ArchetypeMatch> recognise_archetypes(std::span<const GraphFacts* const> graphs, double eager_us);

}  // namespace passnet
