#pragma once

#include <string>

#include "eval/eval.h"
#include "solve/evaluator.h"

namespace passnet {

/// Measures by the evaluator's driver: all contenders of a variant in one child, their trials in turn. The records lie below
/// `runs`, a folder an evaluation.
class DeviceEvaluator final : public Evaluator {
 public:
  /// `options`: device, slots, memory, trials, sandbox and the one sample; the rest is set by each request.
  DeviceEvaluator(eval::EvalContext context, eval::EvalOptions options, std::string runs)
      : context_(std::move(context)), options_(std::move(options)), runs_(std::move(runs)) {}

  Result<Evaluation> run(const EvaluationRequest& request) override;

 private:
  eval::EvalContext context_;
  eval::EvalOptions options_;
  std::string runs_;
};

/// Whether the driver of a GPU is there and the environment does not hide every device. Starts nothing; an evaluation says the
/// rest.
bool gpu_in_sight();

/// What the records of one run say of the request's contenders.
Result<Evaluation> evaluation_of(const eval::EvalReport& report, const EvaluationRequest& request);

}  // namespace passnet
