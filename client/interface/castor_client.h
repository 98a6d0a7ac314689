/* The C interface of libcastor_client.so: a training run in managed memory
 * whose operators are somebody else's (PyTorch's, through ../shim/).
 *
 * A client declares its parameters, gives them values, and then says, in the
 * order in which things happen, which parameters its operators read, how many
 * bytes of other memory it takes, which gradients are there, and when a micro
 * batch and a step are over. It is given addresses of parameters for the time
 * until the next use.
 *
 *   castor_open, castor_set_values (each parameter)
 *   for each step:
 *     castor_begin(run, training = 1)
 *     for each micro batch of the step:
 *       castor_use ...                            (forward)
 *       castor_use, castor_gradient ...           (backward)
 *       castor_gradient(last = 1) of what was not taken, castor_end_backward
 *     castor_step
 *   castor_close
 *
 * An evaluation is castor_begin(run, training = 0), castor_use ...,
 * castor_end_evaluation.
 *
 * The first step of its kind is recorded, with no more on the device than the
 * use at hand needs. From the record a plan is made, and steps that do the same
 * again follow it. A step that does something else is recorded anew, from the
 * use at which it differs.
 *
 * A process that torchrun, srun or mpirun started is one of several ranks. They
 * share parameters and optimizer states, and all make the same calls on micro
 * batches of their own: micro batch i of rank r is the i N + r-th of N ranks.
 * An error of one within a step is one of all, and each calls castor_abort.
 *
 * Bytes are those of one process. Parameters are numbered from 0 in the order
 * of castor_open. Threads: calls of a run come from one thread at a time, but
 * castor_claim and castor_release, which may come from any.
 *
 * A failed call leaves its reason in castor_error(). After a failure within a
 * step only castor_abort may follow: it puts all parameters and optimizer
 * states back to what they were when the step began.
 */
#ifndef CASTOR_CLIENT_INTERFACE_CASTOR_CLIENT_H_
#define CASTOR_CLIENT_INTERFACE_CASTOR_CLIENT_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct castor_run castor_run;

typedef struct castor_meeting castor_meeting;

typedef enum {
  CASTOR_OK = 0,
  CASTOR_INVALID = 1, /* an argument, or a key of the configuration */
  CASTOR_REFUSED = 2, /* it does not fit; castor_last_refusal has the numbers */
  CASTOR_FAILED = 3,  /* calls out of order, or a failure of the run */
  /* Only this try of the step failed: it does something else, or takes more
   * memory, than steps before it. After castor_abort it may be run again. */
  CASTOR_AGAIN = 4,
  /* A gradient was not finite. From castor_step: the step is over and has
   * changed nothing; more steps may follow. From castor_begin: a parameter or
   * state is not; values can be read, and a checkpoint loaded. */
  CASTOR_NOT_FINITE = 5,
} castor_status;

/* Returns one line that says why the calling thread's last failed call failed.
 * Valid until the thread's next call. */
const char* castor_error(void);

typedef struct {
  const char* op;         /* the use at which it is too much */
  int64_t peak_bytes;     /* what the client would have claimed */
  int64_t resident_bytes; /* beside them: parameters and what always stays */
  int64_t smallest_device_budget_bytes;
  /* 1: that budget is known to do. 0: it is a lower bound, since the step was
   * not seen to its end. */
  int exact;
} castor_refusal;
/* Returns the numbers of the calling thread's last call that gave
 * CASTOR_REFUSED. */
castor_refusal castor_last_refusal(void);

/* Joins the ranks that this process was started with in a meeting before there
 * is a run: while a model is made of which each keeps a part. All of them make
 * the same calls. `port_is_stores`: as castor_open's. */
castor_status castor_meet(int port_is_stores, castor_meeting** meeting);
int castor_meeting_rank(const castor_meeting* meeting);
int castor_meeting_world_size(const castor_meeting* meeting);
/* `data`, of `bytes`, becomes rank `root`'s. `what` names it, and is the same
 * on all ranks. */
castor_status castor_meeting_broadcast(castor_meeting* meeting,
                                       const char* what, int root, void* data,
                                       int64_t bytes);
/* Ends the meeting, and waits until all ranks do. `failure` is not null where
 * this rank gives up: the others' calls then fail with it. Null for `meeting`
 * is allowed. */
void castor_meeting_end(castor_meeting* meeting, const char* failure);

/* Returns a configuration's text without comments and, where it is DeepSpeed's
 * or has a section of Colossal-AI's, with Castor's keys. Null: it is no JSON
 * object, or asks for something that Castor lacks; castor_error says why. Valid
 * until the thread's next call of this function. */
const char* castor_plain_config(const char* config_json);
/* Returns, as JSON, how the keys of other projects were understood: "notes" has
 * what the user is to be told of them, if there is anything. A configuration of
 * DeepSpeed's also gives "autos" and "defaults": the paths of keys that were
 * "auto", and of those that have DeepSpeed's default. Null and lifetime: as
 * castor_plain_config. */
const char* castor_config_account(const char* config_json);
/* Writes to `rates` the learning rates that the configuration's schedule has
 * for steps `first` (from 1) to first + count - 1. */
castor_status castor_config_rates(const char* config_json, int64_t first,
                                  int64_t count, double* rates);

typedef struct {
  const char* name; /* as "transformer.h.0.attn.c_attn.weight" */
  int64_t elements;
  int trainable;
  double weight_decay;  /* negative: the configuration's, by the name */
  const int64_t* shape; /* of `elements` in all; null: a vector */
  int dimensions;
} castor_parameter;

/* The place where the client's operators are queued: a stream of one of the
 * GPUs that the process sees. */
typedef struct {
  int gpu; /* from 0 */
  void*
      stream; /* cudaStream_t, which outlives the run; null: the default one */
} castor_place;

/* `config_json`: the text of a configuration with the keys of castor train,
 * without those of the model and the data (docs/configuration.md).
 * `place`: null where operators run on the thread that makes the calls. It is
 * given if and only if the configuration's device.type is "cuda".
 * `port_is_stores`: on several ranks, not 0 where MASTER_PORT is that of a
 * store of PyTorch's (TCPStore), in which they then find each other. */
castor_status castor_open(const char* config_json,
                          const castor_parameter* parameters, int64_t count,
                          const castor_place* place, int port_is_stores,
                          castor_run** run);
/* Waits for all work. Bytes that the client still claims need no release
 * afterwards. Blocks of castor_allocate stay valid until castor_free, the only
 * call that may still use `run` then; the GPU has its memory back with the last
 * of them. Null is allowed. */
void castor_close(castor_run* run);

/* How parameters and gradients are stored: "fp32" or "bf16". */
const char* castor_dtype(const castor_run* run);
/* The configuration's gradient_accumulation_steps. */
int64_t castor_micro_batches(const castor_run* run);
int castor_rank(const castor_run* run);       /* from 0 */
int castor_world_size(const castor_run* run); /* how many ranks */

/* Between steps; optimizer states stay. `values`: `elements` fp32 numbers. On
 * several ranks all call it with the same `root`, a rank: its values count, and
 * others may have null. All of them call castor_get_values, too. */
castor_status castor_set_values(castor_run* run, int64_t parameter,
                                const float* values, int root);
/* Between steps: the master copy of a trainable parameter, as fp32, the stored
 * values of a frozen one. */
castor_status castor_get_values(castor_run* run, int64_t parameter, float* out);

/* Between steps, by all ranks: gives every rank's `text` to all. `texts`
 * [castor_world_size] gets them, valid until the run's next call of this
 * function. `what` names the exchange, and is the same on all ranks. */
castor_status castor_exchange(castor_run* run, const char* what,
                              const char* text, const char** texts);

/* Returns a number for this name, the same for equal names. */
int64_t castor_label(castor_run* run, const char* name);

typedef enum { CASTOR_FORWARD = 0, CASTOR_BACKWARD = 1 } castor_phase;

castor_status castor_begin(castor_run* run, int training);
/* Announces inputs of the kind that `label` says, with these sizes along their
 * dimensions, as many each time with this label. A step should begin with it:
 * the step is expected to go on as an earlier one whose inputs were of the same
 * kind and at least as large, and takes no more memory than that. In messages
 * each '*' of the label stands for an extent, in order. CASTOR_INVALID: another
 * number of extents. */
castor_status castor_announce(castor_run* run, int64_t label,
                              castor_phase phase, const int64_t* extents,
                              int64_t count);
/* From now until the next use, the operators read these parameters and no
 * others. `addresses` gets, for each of them, where it lies until then: in the
 * run's type, contiguous. `label` says which operator it is. */
castor_status castor_use(castor_run* run, int64_t label, castor_phase phase,
                         const int64_t* parameters, int64_t count,
                         void** addresses);
/* Hands in a parameter's gradient as far as it is there, in the run's type. If
 * `*taken` is 1 afterwards, it has been copied, and the caller forgets it;
 * parts that come later are added to the copy. If it is 0, the caller keeps it,
 * adds later parts to it, and hands the sum in again. With `last` it is always
 * taken. After it was taken, `parameter` is not at its last address any more.
 */
castor_status castor_gradient(castor_run* run, int64_t parameter,
                              const void* gradient, int last, int* taken);
/* The micro batch is over. A gradient that was never handed in is zero. */
castor_status castor_end_backward(castor_run* run);
/* Updates the parameters, after all micro batches. `learning_rate`: negative
 * for that of the configuration's schedule. */
castor_status castor_step(castor_run* run, double learning_rate);
/* Between steps: says which rate castor_step will be given in the next step, as
 * far as is known; the same on all ranks. Updates that begin before castor_step
 * use it, and are done again where another rate comes. */
void castor_expect_rate(castor_run* run, double learning_rate);
castor_status castor_end_evaluation(castor_run* run);
/* Gives the step up: puts all parameters and optimizer states back to what they
 * were when it began. Does nothing between steps. */
castor_status castor_abort(castor_run* run);

/* Checkpoints have the format of castor train (docs/checkpoint-format.md), and
 * hold beside it a text that only the client reads. */
typedef struct {
  const char* path;
  int64_t step;
  const char* text; /* null where castor train wrote it */
  /* Lines for the user, with a line break between two; "" for none. */
  const char* notes;
  /* The settings that determine bits and differ from the checkpoint's. */
  const char* differences;
} castor_checkpoint;
/* Between steps, by all ranks together: a failure of one is one of all. The
 * strings are valid until the run's next call of one of these. A failure
 * changes nothing of the run. `text` is rank 0's.
 * Saves into a directory, in which the newest `keep` (0: all) stay. Of the
 * directories into which other runs' checkpoints moved, the newest `keep_aside`
 * (0: all) stay. `lock`: 0 where the file system has no locks. */
castor_status castor_save_checkpoint(castor_run* run, const char* directory,
                                     const char* text, int64_t keep,
                                     int64_t keep_aside, int lock,
                                     castor_checkpoint* saved);
/* Finds a checkpoint, or the newest in a directory, and checks all of it. With
 * `changed`, other settings are no error. */
castor_status castor_find_checkpoint(castor_run* run, const char* path,
                                     int changed, castor_checkpoint* found);
/* Loads values, optimizer states and the step of the checkpoint that was found
 * last. */
castor_status castor_load_checkpoint(castor_run* run);

/* Between steps: writes a trace of the run from now on to the file `path`, for
 * `castor trace` (docs/trace-format.md). `title` says what is trained; `steps`
 * is "FIRST:LAST", the steps to trace in full, or "". On several ranks all call
 * it; each writes a file beside `path`, which castor_end_trace makes one. */
castor_status castor_trace(castor_run* run, const char* path, const char* title,
                           const char* steps);
/* Between steps, by all ranks: ends the trace; fails if not all of it could be
 * written. castor_close does the same, but reports no failure. */
castor_status castor_end_trace(castor_run* run);

/* With a castor_place, addresses are the GPU's, and a call returns when its
 * work is queued on the place's stream, ahead of what the client queues there
 * next. castor_claim and castor_release are not for such a run; these are: */

/* Allocates a block of the device's memory, aligned to 256 bytes, for work that
 * is queued on `stream` after the call. It counts as castor_claim does, with
 * the holes between blocks. AGAIN: a parameter that an operator uses is in the
 * way. */
castor_status castor_allocate(castor_run* run, int64_t bytes, void* stream,
                              void** address);
/* Frees a block. Work that is queued on its streams may still use it. */
void castor_free(castor_run* run, void* address);
/* Adds `stream` to the block's streams, the first of which is the one that it
 * was allocated for. */
void castor_use_on(castor_run* run, void* address, void* stream);

/* Gets the number, from 0, of this process among the machine's ranks, each of
 * which has a GPU of its own; -1: its launcher does not say. 0 if it was
 * started alone. INVALID: the variables that launchers have set contradict each
 * other. */
castor_status castor_local_rank(int* local_rank);
/* Allocates memory of a GPU that no run knows of. FAILED: there is none. */
castor_status castor_gpu_allocate(int gpu, int64_t bytes, void** address);
void castor_gpu_free(int gpu, void* address);

/* The device is to hold `bytes` more that are no parameters (activations,
 * gradients on their way). REFUSED: there is no room; nothing has changed. */
castor_status castor_claim(castor_run* run, int64_t bytes);
void castor_release(castor_run* run, int64_t bytes);

/* Between steps, by all ranks together: the device's memory is `size` from now
 * on, a number of bytes or a text such as "12GiB". Chunks that no longer fit
 * leave it, and steps go on to the same bits. INVALID: no such size. REFUSED:
 * too little for the steps so far. FAILED: the machine has less, or the device
 * cannot change. Nothing has changed then. */
castor_status castor_set_device_memory(castor_run* run, const char* size);

/* The steps done so far, and the learning rate that the schedule has for the
 * next. */
int64_t castor_steps(const castor_run* run);
/* How many of these were undone, since a gradient was not finite. */
int64_t castor_skipped_steps(const castor_run* run);
double castor_learning_rate(const castor_run* run);
/* The factor by which the losses of the step at hand, or of the next one, are
 * to be multiplied before their backward; 1 except in fp16. */
double castor_loss_scale(const castor_run* run);
/* The norm of the latest step's gradients before clipping, infinite where one
 * is not finite; 0 where the configuration has neither gradient_clipping nor
 * on_nonfinite_undo. Waits for the step. */
castor_status castor_gradient_norm(castor_run* run, double* norm);
/* The learning rate that the schedule has for a step, from 1. */
double castor_scheduled_rate(const castor_run* run, int64_t step);
/* The configuration's seed. */
int64_t castor_seed(const castor_run* run);
/* Returns a seed for a generator of random numbers, from nothing but its
 * arguments. So the numbers that a client draws in call `call` (from 0) of a
 * step's global micro batch (from 0) depend on neither ranks nor placement, nor
 * on steps that were undone. `step`: from 1. */
uint64_t castor_generator_seed(int64_t seed, int64_t step, int64_t micro_batch,
                               int64_t call);
/* A JSON object with keys of --summary (DESIGN.md). Valid until the next call.
 */
const char* castor_summary(castor_run* run);

/* Returns what a step would take that was not run. `pass_json` says what a
 * micro batch does, in the order of castor_use: a list of
 *   {"op": NAME, "backward": BOOL, "parameters": [NUMBER, ...],
 *    "peak_bytes": claimed at most while it lasts,
 *    "gradients": [NUMBER, ...] handed in while it lasts}.
 * `world_size`: how many ranks share it; 0: as many as this process was started
 * with. No memory is taken, and other ranks need not call it. The result is a
 * JSON object: "fits", the keys of castor_summary, "operator", "peak_bytes" and
 * "resident_bytes" of the use that takes most. Null: castor_error() says why.
 * Valid until the thread's next call. */
const char* castor_foresee(const char* config_json,
                           const castor_parameter* parameters, int64_t count,
                           const char* pass_json, int world_size);

#ifdef __cplusplus
}
#endif

#endif /* CASTOR_CLIENT_INTERFACE_CASTOR_CLIENT_H_ */
