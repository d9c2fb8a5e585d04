#pragma once

#include "sim/draw.hpp"
