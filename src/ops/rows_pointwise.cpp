#include "ops/pointwise_rows.h"

namespace passnet {

std::vector<OpRow> pointwise_rows() {
  std::vector<OpRow> rows;
  for (auto* list : {arithmetic_rows, unary_rows, logic_rows, select_rows, cast_rows}) {
    std::vector<OpRow> part = list();
    rows.insert(rows.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  }
  return rows;
}

}  // namespace passnet
