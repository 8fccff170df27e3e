// Compiled once per instruction set, with ONKEL_LEVEL naming it.
#include "bank.hpp"
#include "bank_lane.hpp"
#include "condense.hpp"
#include "density.hpp"
#include "lane.hpp"
#include "least_squares.hpp"
#include "primal.hpp"
#include "rows.hpp"
#include "steps.hpp"
#include "tree.hpp"

#define ONKEL_CONCAT(a, b) a##b
#define ONKEL_TABLE(level) ONKEL_CONCAT(table_, level)
#define ONKEL_TEXT2(x) #x
#define ONKEL_TEXT(x) ONKEL_TEXT2(x)

namespace onkel {
extern const Table ONKEL_TABLE(ONKEL_LEVEL);
const Table ONKEL_TABLE(ONKEL_LEVEL) = {ONKEL_TEXT(ONKEL_LEVEL),
                                        sums<float>,
                                        sums<double>,
                                        matrix<float>,
                                        matrix<double>,
                                        steps,
                                        primal,
                                        least_squares,
                                        try_squares,
                                        take_squares,
                                        fold_all,
                                        code_scores,
                                        learn_lane<float>,
                                        learn_lane<double>,
                                        look_lane<float>,
                                        look_lane<double>,
                                        learn_bank<float>,
                                        learn_bank<double>,
                                        look_bank<float>,
                                        look_bank<double>,
                                        {forest_describe, forest_query, additive_matrix},
                                        evaluate_pairs,
                                        bank_sums<float>,
                                        bank_sums<double>,
                                        bank_matrix<float>,
                                        bank_matrix<double>,
                                        density,
                                        have_codes<float>,
                                        have_codes<double>,
                                        condense<float>,
                                        condense<double>};
}  // namespace onkel
