// What the binding file knows of the per-instruction-set code: plain structs and one table.
#pragma once
#include <cstdint>

#include "algebra.hpp"  // made from onkel/core/layout.py
#include "tree_api.hpp"

namespace onkel {

// Throws: a code has no case. The binding files let none through that is not in the table.
[[noreturn]] void refuse(const char* what, int code);  // in bind.cpp

// A kernel is a short program in postfix order.
struct Node {
  Op op;
  double a, b;
  int c;
};

struct Program {
  const Node* nodes;
  int size;
};

// Several kernels over the same terms; kernel i serves the columns ends[i - 1] ... ends[i] - 1.
struct Programs {
  const Program* of;
  const int64_t* ends;
  int64_t count;
};

// Query rows, prepared by onkel/core/frame.py: dot(x, s) = q . s + off, |x|^2 = norm. The first
// columns may be codes, of which q and v both hold them as they are.
template <class T>
struct Queries {
  const T* q;      // [rows][d] weights applied, for dot products
  const T* v;      // [rows][d] in the stored frame, for differences
  const T* off;    // [rows]
  const T* norm;   // [rows]
  const T* width;  // [d] what one unit of the stored frame means; what two codes are apart
  int64_t rows, d, codes;
};

template <class T>
struct Panels {
  const T* values;   // [capacity][d][kLanes]
  const T* norms;    // [capacity][kLanes]
  int64_t capacity;  // a ring of this many panels,
  int64_t first;     // of which the panels first, first + 1, ...
  int64_t used;      // are looked at, so many of them
};

// A loss: what it is, nu (below 0: fixed), one number more (novelty: the fraction that f learns
// from; soft margin: the power), and whether f learns rows that raise an alert.
struct Loss {
  LossCode code;
  double nu, extra;
  bool learn_alerts;
};

// A rule: NORMA's numbers (power: of the norm in the regulariser), the ball, and one number more
// (ALMA: a of the self-tuning form, or 0; ROMMA: whether it is aggressive; both: see p); the
// longest step, |coef| sqrt(k(x, x)).
struct Rule {
  RuleCode code;
  double threshold_rate, power, support_rate, radius, extra, most;
};

// Everything that one call of `steps` reads; see onkel/core/numpy_core.py for the algorithm.
struct StepInput {
  int64_t rows, columns, old_count;  // block rows, outputs, candidates older than the block
  int64_t live, first_trial;         // terms stored before the block; trial number of row 0
  const double* kernel;              // [lead + rows][old + rows]; lead = needs_norm ? old : 0
  const double* base;                // [lead + rows][wide] sums over terms that stay
  const double* old_coef;            // [wide][old], actual units
  const double* diag;                // [old + rows]
  const int64_t* births;             // [old]
  const double* y;                   // [rows][columns]; NaN: an output that is not there yet
  const double* weight;              // [rows]
  const double* eta;                 // [rows]
  const double* lam;                 // [rows] the regularisation
  const int64_t* cap;                // [rows] most terms after this trial
  const int64_t* hosts;   // [rows] candidate that holds the same example, kStays, kNoTerm
  const int64_t* oldest;  // [rows] births below this are dropped after this trial
  Loss loss;
  Rule rule;
  bool intercept, needs_norm, average;
  BudgetCode budget;  // which term goes where there are too many
  double stop_scale;  // a scale below this, or above its inverse, ends the block early
};

struct StepOutput {
  double* state;       // [columns][kFields], in and out
  double* score;       // [rows][columns] f + b before the step
  double* mean_score;  // [rows][columns] of the average hypothesis
  double* limit;       // [rows][columns] threshold (novelty: alert threshold) before the step
  double* coef;        // [rows][wide], stored units
  uint8_t* kept;       // [rows] stored and still there at the end
  uint8_t* merged;     // [rows] to be added to the term that holds the same example
  uint8_t* wiped;      // [columns]
  int64_t dropped;     // of the old candidates
  int64_t done;        // rows processed
  bool stale_norm;     // cancellation ate ||f||^2: the caller sums it anew
  int64_t bad_row;     // first row whose step is not finite, or -1
};

// What one call of `primal` reads and changes: weights instead of terms, one row at a time.
struct PrimalInput {
  int64_t rows, columns, d;
  const double* x;       // [rows][codes + d]: codes, which are read as buckets, and features
  const double* y;       // [rows][columns]
  const double* weight;  // [rows]
  const double* eta;     // [rows]
  const double* lam;     // [rows]
  Loss loss;
  Rule rule;
  double p;  // of the link
  bool intercept, needs_norm, average;
};

// What one call of `least_squares` reads and changes; see onkel/core/numpy_least_squares.py.
struct Squares {
  int64_t rows, columns, d;
  const double* x;       // [rows][d] features; the last is 1
  const double* y;       // [rows][columns]; NaN: an output that is not there yet
  const double* weight;  // [rows]
  const double* keep;    // [rows] what is left of what was known along a row
  double clip, most, horizon, longest;
  double* state;    // [columns][kFields], in and out
  double* theta;    // [columns][d], in and out
  double* cov;      // [d][d], in and out
  double* score;    // [rows][columns]
  double* limit;    // [rows][columns] standard deviations
  int64_t bad_row;  // first row whose step is not finite, before which all are learned, or -1
};

// Weights of codes, which are the first columns of a row: a table for each output.
struct Codes {
  int64_t count, buckets, columns;  // codes of a row, weights of an output, outputs
  int64_t every;                    // steps after which an output's weights are folded
  bool whole;                       // else these are only the buckets of one row, and never folded
  const int32_t* at;                // [rows][count] the buckets
  double* weights;                  // [buckets][columns], times the output's scale
  double* past;                     // [buckets][columns] (average), or null
  double* marks;  // [columns][2]: the sum of the squared weights, steps since the fold
};

struct PrimalOutput {
  double* state;       // [columns][kFields], in and out
  double* theta;       // [columns][d + 1], in and out; the last is the sum of the coefficients
  double* total;       // [columns][d + 1] sums of w over the trials (average), or empty
  double* score;       // [rows][columns]
  double* mean_score;  // [rows][columns]
  double* limit;       // [rows][columns]
  int64_t bad_row;     // first row whose step is not finite, or -1
  Codes codes;         // in and out; as they were where a row is bad
};

// What one call of the fast lane reads and changes: a ring of panels, learned in place.
template <class T>
struct Lane {
  Program program;
  int64_t d, codes, columns;                    // of d columns the first are codes
  const double *center, *unit, *width, *shift;  // of the frame
  double alike;                                 // what a row's codes add to its squared length
  const T* width_t;                             // [d] as in Queries
  bool invariant;
  double clip;  // most that a coordinate may be, times width (kernels of differences)
  T* panels;    // [capacity][d][kLanes]
  T* norms;
  double* coef;  // [capacity][columns][kLanes], stored units
  T* weights;    // the same numbers in the rows' own type
  int64_t* births;
  int64_t capacity, head, count;
  BudgetCode budget;
  double* state;  // [columns][kFields]
  Loss loss;
  Rule rule;
  bool intercept, needs_norm;
  int64_t rows, first_trial, cap;
  const T* x;  // [rows][d] as they came
  const double *y, *weight, *eta, *lam;
  const int64_t* oldest;
  double *score, *limit;
  uint8_t* kept;
  int threads;
  int64_t done;
};

// What one call of `condense` reads and changes: terms in order from the first lane on, with
// coefficients in actual units, of which the first `own` say how large a term is.
template <class T>
struct Condense {
  BudgetCode budget;
  Program program;
  int64_t d, codes, columns, own;
  const double *width, *shift;  // of the frame
  double alike;                 // what a row's codes add to its squared length
  const T* width_t;             // [d] as in Queries
  T* panels;                    // [panels][d][kLanes]
  T* norms;
  double* coef;  // [panels][columns][kLanes]
  int64_t* births;
  int64_t count, left;  // terms that there are (in and out), and that stay
  double* lost;         // [columns] the norms of what was lost, added up
};

// What decides the steps of one member of a bank, and the number of its kernel.
struct BankMember {
  Loss loss;
  Rule rule;
  bool intercept;
  int64_t kernel;
};

// The same for a bank: outputs stand member by member. The ring is not
// full. `program`, `loss`, `rule` and what goes with them are not looked at.
template <class T>
struct BankLane : Lane<T> {
  Programs programs;
  const BankMember* members;  // in the order of their kernels
  int64_t sharing, outputs;   // members, and outputs of each
  int64_t stride;             // eta and lam are [members][stride]; y is [rows][outputs]
  int64_t at_once;            // terms that go when the ring is full; 0: that is the caller's
};

// What a detector was asked for (onkel/core/density.py says what each number means).
struct DensityPlan {
  double nu, memory;
  int64_t terms, late_terms, delay, hold, history, warmup, young, seed;
  double span, rate, low, high;
};

// Alerts that were answered, and those that wait for it (onkel/core/answers.py).
struct Answers {
  int64_t count;           // of those that were answered
  const double* places;    // [count][5][3][d]: center, spread, place, weight and limit of row, step
                           // and mean
  const double* radius;    // [count][4]: of each, and by how much all are sharpened
  const double* strength;  // [count]: -log p that a row there has, of faults; 0 where it is usual
  const int64_t* born;     // [count]: rows learned when the answer came
  double memory;           // rows for which an answer holds, then it fades
  double theta;            // log p at most that alerts have, ...
  bool judges, alone;      // ... if that is asked for, and instead of the level
  int64_t room;            // of the ring of alerts; 0: none are kept
  double* asked;           // [room][3 d + 2]: row, step, mean, log p, tie
  int64_t* asked_at;       // [room]: rows learned before each
  uint8_t* said;           // [room]: 0 while it waits
  int64_t* asked_count;    // [2]: all alerts so far, and rows that answers have kept from being one
};

// What one call of `density` reads and changes: the state of a detector, learned in place.
struct Density {
  int64_t d, ranks, places, late_places, waits, holds;
  int64_t* whole;                 // [kCounts]
  double* real;                   // [kLevels]
  double *mean, *cov;             // [3][d] and [3][ranks][d] of rows, steps, late means
  double *center, *scale, *turn;  // the metric: [3][d], [3][d], [3][ranks][d]
  double *last, *smooth, *size;   // [d]
  double* calm;                   // [4][d]
  double *raw, *late_raw;         // [2][places][d] rows and steps; [late_places][d]
  float *z, *late_z;              // [3][d][places], [d][late_places]
  float *sums, *late_sums;        // [7][places], [2][late_places]: kernel sums, then reaches
  uint8_t* marks;                 // [places] whether a term once raised an alert
  double* held;                   // [holds][2 d + 2] row, step, weight, joined score
  int64_t* due;                   // [holds]
  double* waiting;                // [waits][d]
  double *history, *ranked;
  int64_t rows;
  const double *x, *weight;  // [rows][d]; [rows], or null: nothing is learned
  double* out;               // [rows][4]: log p, the level, alert, the joined score
  double* members;           // [rows][9], or null
  double* usual;             // [rows][2][d] means and variances before each row, or null
  Answers answers;
  int64_t stop_from = -1;  // stop before an alert is learned, from this row on; -1: never
  int64_t done = 0;        // rows judged and, with a weight, learned
};

struct Table {
  const char* name;
  void (*sums_f)(Program, Queries<float>, Panels<float>, const float*, int64_t, double*);
  void (*sums_d)(Program, Queries<double>, Panels<double>, const double*, int64_t, double*);
  void (*matrix_f)(Program, Queries<float>, Panels<float>, int64_t, double*);
  void (*matrix_d)(Program, Queries<double>, Panels<double>, int64_t, double*);
  void (*steps)(const StepInput&, StepOutput&);
  void (*primal)(const PrimalInput&, PrimalOutput&);
  void (*least_squares)(Squares&);
  bool (*try_squares)(const Squares&, double*, double&);
  void (*take_squares)(const Squares&, double*, double);
  void (*fold)(const Codes&, double*);
  void (*code_scores)(const Codes&, int64_t, const double*, const double*, double*);
  void (*lane_f)(Lane<float>&);
  void (*lane_d)(Lane<double>&);
  bool (*look_f)(Lane<float>&);
  bool (*look_d)(Lane<double>&);
  void (*bank_lane_f)(BankLane<float>&);
  void (*bank_lane_d)(BankLane<double>&);
  bool (*bank_look_f)(BankLane<float>&);
  bool (*bank_look_d)(BankLane<double>&);
  TreeTable trees;
  void (*evaluate)(Program, const double*, const double*, const double*, int64_t, double*);
  void (*bank_sums_f)(Programs, Queries<float>, Panels<float>, const float*, int64_t, double*);
  void (*bank_sums_d)(Programs, Queries<double>, Panels<double>, const double*, int64_t, double*);
  void (*bank_matrix_f)(Programs, Queries<float>, Panels<float>, int64_t, double*);
  void (*bank_matrix_d)(Programs, Queries<double>, Panels<double>, int64_t, double*);
  void (*density)(const DensityPlan&, Density&);
  bool (*codes_f)(const float*, int64_t, int64_t, int64_t);
  bool (*codes_d)(const double*, int64_t, int64_t, int64_t);
  void (*condense_f)(Condense<float>&);
  void (*condense_d)(Condense<double>&);
};

const Table& current_table();  // of the level in use; in bind.cpp

}  // namespace onkel
