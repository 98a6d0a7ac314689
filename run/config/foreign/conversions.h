// How the values of foreign keys become Castor's, for the tables of keys. The
// comment of a conversion says what the foreign value is.
#ifndef CASTOR_RUN_CONFIG_FOREIGN_CONVERSIONS_H_
#define CASTOR_RUN_CONFIG_FOREIGN_CONVERSIONS_H_

#include "run/config/foreign/foreign_account.h"
#include "run/config/foreign/foreign_key.h"

namespace castor::conversions {

// The most that checkpoint.keep and eval_batches take, for "all".
inline constexpr int kMostOfConfig = 1 << 20;

// Returns whether a value asks for nothing: false, 0, "", "no", "none", [] or
// {}.
bool IsOff(const Json& value);

// The row says all there is to say, whatever the value.
void Ignored(const ForeignKey& key, const Json& value, ForeignAccount& account);
void LeftToUser(const ForeignKey& key, const Json& value,
                ForeignAccount& account);
// Something that Castor does not have, which matters unless it is off.
void Lacking(const ForeignKey& key, const Json& value, ForeignAccount& account);
// Something that Castor always does, so that only `false` matters.
void Always(const ForeignKey& key, const Json& value, ForeignAccount& account);

// A value that is Castor's, too; and one that is so unless it is off or
// negative, which means there that nothing is given.
void Same(const ForeignKey& key, const Json& value, ForeignAccount& account);
void IfPositive(const ForeignKey& key, const Json& value,
                ForeignAccount& account);
// A number of steps; a share of something is left out.
void Steps(const ForeignKey& key, const Json& value, ForeignAccount& account);
// A path on this machine, not a name at a hub.
void Path(const ForeignKey& key, const Json& value, ForeignAccount& account);
// Data sets that are files: one, or a list of them.
void DataFiles(const ForeignKey& key, const Json& value,
               ForeignAccount& account);
// A yes or no: prompts are learned, too.
void LearnsAll(const ForeignKey& key, const Json& value,
               ForeignAccount& account);
// A yes or no: only the part that `says` names, a value of data.loss_on, is
// learned. What no means depends on the other such keys.
void LearnsOnly(const ForeignKey& key, const Json& value,
                ForeignAccount& account);
// A yes or no: several records share a sample. With no, each has its own, also
// one that is a text, of which Castor by itself makes a run.
void Packed(const ForeignKey& key, const Json& value, ForeignAccount& account);
// Axolotl's "drop" or "truncate": what becomes of records that are too long.
void ExcessLength(const ForeignKey& key, const Json& value,
                  ForeignAccount& account);
// A yes or no, "auto" among them, of a type of numbers: `ours` has it.
void Enabled(const ForeignKey& key, const Json& value, ForeignAccount& account);
// The name of a type of numbers: "bf16", "float16", "fp32".
void TypeName(const ForeignKey& key, const Json& value,
              ForeignAccount& account);
// A yes or no about recomputing activations.
void Checkpointing(const ForeignKey& key, const Json& value,
                   ForeignAccount& account);
// One of the two betas.
void Beta1(const ForeignKey& key, const Json& value, ForeignAccount& account);
void Beta2(const ForeignKey& key, const Json& value, ForeignAccount& account);
// The name of an optimizer among transformers', or of a class of one.
void OptimizerName(const ForeignKey& key, const Json& value,
                   ForeignAccount& account);
// The name of a schedule among transformers'; of a function that makes one.
void ScheduleName(const ForeignKey& key, const Json& value,
                  ForeignAccount& account);
// transformers' warmup_steps, which below 1 is a share of all steps.
void WarmupSteps(const ForeignKey& key, const Json& value,
                 ForeignAccount& account);
// How many checkpoints stay; without one, or 0, all.
void Kept(const ForeignKey& key, const Json& value, ForeignAccount& account);
// When it evaluates or saves: "steps", "epoch", "no".
void EvalStrategy(const ForeignKey& key, const Json& value,
                  ForeignAccount& account);
void SaveStrategy(const ForeignKey& key, const Json& value,
                  ForeignAccount& account);
// The metric by which the best checkpoint is chosen.
void BestMetric(const ForeignKey& key, const Json& value,
                ForeignAccount& account);
// The share of the data that is for evaluations, below 1.
void Share(const ForeignKey& key, const Json& value, ForeignAccount& account);
// Parallelism of a kind that Castor does not have, which 1 is none of.
void OneOnly(const ForeignKey& key, const Json& value, ForeignAccount& account);
// An object of a schedule's own keys, for the params of Castor's.
void ScheduleArguments(const ForeignKey& key, const Json& value,
                       ForeignAccount& account);
// The most steps of an epoch, of which nobody knows here how many it has.
void StepsPerEpoch(const ForeignKey& key, const Json& value,
                   ForeignAccount& account);
// How transformers draws samples, of which "random" is what Castor does.
void Sampling(const ForeignKey& key, const Json& value,
              ForeignAccount& account);
// LLaMA-Factory's stage of training; torchtune's component of a loss.
void Stage(const ForeignKey& key, const Json& value, ForeignAccount& account);
void Loss(const ForeignKey& key, const Json& value, ForeignAccount& account);
// TRL's name of a loss, of which "nll" is Castor's.
void LossType(const ForeignKey& key, const Json& value,
              ForeignAccount& account);
// Keys whose yes is Castor's no.
void NotShuffled(const ForeignKey& key, const Json& value,
                 ForeignAccount& account);
void NoCheckpointing(const ForeignKey& key, const Json& value,
                     ForeignAccount& account);
void UseCpu(const ForeignKey& key, const Json& value, ForeignAccount& account);
// Seconds that ranks wait, of which Castor takes fewer than others do.
void Timeout(const ForeignKey& key, const Json& value, ForeignAccount& account);
// A way of fine-tuning, of which Castor has only that of all parameters.
void FullOnly(const ForeignKey& key, const Json& value,
              ForeignAccount& account);
// A decay that transformers' Trainer leaves away for biases and norms.
void TrainerDecay(const ForeignKey& key, const Json& value,
                  ForeignAccount& account);
// Which device: "cuda", "cuda:0", "cpu".
void Device(const ForeignKey& key, const Json& value, ForeignAccount& account);
// The component of torchtune that makes the model.
void ModelComponent(const ForeignKey& key, const Json& value,
                    ForeignAccount& account);

}  // namespace castor::conversions

#endif  // CASTOR_RUN_CONFIG_FOREIGN_CONVERSIONS_H_
