# Flags for every target, and the helper that makes a layer: a static library that may use only what lies below it.

find_program(CCACHE ccache)
if(CCACHE)
  # One cache for all build folders: paths relative to the source, the build folder itself not part of the key.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true
    ${CCACHE})
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Wold-style-cast -Wcast-qual -Wimplicit-fallthrough -Wswitch-enum -Wno-gnu-zero-variadic-macro-arguments
  -Wno-missing-designated-field-initializers)  # defaults stand in the struct
if(ONCE_WERROR)
  add_compile_options(-Werror)
endif()

if(ONCE_SANITIZE)
  add_compile_options(-fsanitize=${ONCE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # That check opens a pipe to look at memory, and finds fault with every object in a process that has no descriptors left.
  add_compile_options(-fno-sanitize=vptr)
  add_link_options(-fsanitize=${ONCE_SANITIZE})
else()
  add_compile_options(-fstack-protector-strong -fstack-clash-protection -fcf-protection -D_GLIBCXX_ASSERTIONS
    $<$<CONFIG:Release>:-U_FORTIFY_SOURCE> $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=2>)
  add_link_options(-Wl,-z,relro,-z,now)
endif()
add_link_options(-fuse-ld=lld-19)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -g1")  # no NDEBUG: invariants are checked in release too
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")    # sanitizers are slow enough; lines are all that a report needs
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND ONCE_LTO)
  add_compile_options(-flto=thin)  # the hot path crosses every layer
  add_link_options(-flto=thin -ffat-lto-objects)  # of objects that are both, the bitcode
endif()

# once_unity(target): compiles the sources of one layer together, at most `ONCE_UNITY` at a time, in units of the same size.
# Headers are parsed once for all of them, which is most of what a build costs. So names in anonymous namespaces are unique
# within a layer. CMake's own units name their sources by absolute paths, with which no other clone hits ccache.
set(ONCE_UNITY 20 CACHE STRING "How many sources of a layer are compiled as one, at most; 0: each by itself")
function(once_unity target)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  set(layers)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(IS_PREFIX PROJECT_BINARY_DIR ${path} is_generated)
    if(NOT source MATCHES "\\.cpp$" OR is_generated)
      continue()  # what is generated is not ours to lint
    endif()
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE layer)
    cmake_path(GET layer PARENT_PATH layer)
    string(REGEX MATCH "^[^/]+(/[^/]+)?" layer "${layer}")
    list(APPEND layers ${layer})
    list(APPEND sources_of_${layer} ${path})
  endforeach()
  list(REMOVE_DUPLICATES layers)
  foreach(layer IN LISTS layers)
    once_unity_groups(${target} ${layer} ${sources_of_${layer}})
  endforeach()
endfunction()

# once_unity_groups(target name sources …): these sources in as few units as `ONCE_UNITY` allows, called after `name`.
function(once_unity_groups target name)
  if(NOT ONCE_UNITY GREATER 1)
    return()
  endif()
  string(MAKE_C_IDENTIFIER "${name}" name)
  get_target_property(folder ${target} BINARY_DIR)
  set(folder ${folder}/units/${target})
  list(LENGTH ARGN count)
  math(EXPR units "(${count} + ${ONCE_UNITY} - 1) / ${ONCE_UNITY}")
  set(index 0)
  set(made)
  foreach(source IN LISTS ARGN)
    math(EXPR unit "${index} * ${units} / ${count}")
    math(EXPR index "${index} + 1")
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${folder} OUTPUT_VARIABLE relative)
    string(APPEND text_${unit} "#include \"${relative}\"\n")
    list(APPEND made ${unit})
    # The target still lists it, for what generates it.
    set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES HEADER_FILE_ONLY ON)
  endforeach()
  list(REMOVE_DUPLICATES made)
  foreach(unit IN LISTS made)
    file(CONFIGURE OUTPUT ${folder}/${name}_${unit}.cxx CONTENT "${text_${unit}}" @ONLY)
    target_sources(${target} PRIVATE ${folder}/${name}_${unit}.cxx)
  endforeach()
endfunction()

# once_cold(target): no request waits for this code, so a short build matters more than its speed.
function(once_cold target)
  target_compile_options(${target} PRIVATE $<IF:$<CONFIG:Release>,-O1,-O0>)
endfunction()

# once_layer(name SOURCES … USES lower layers and libraries …)
function(once_layer name)
  cmake_parse_arguments(LAYER "" "" "SOURCES;USES" ${ARGN})
  add_library(once_${name} STATIC ${LAYER_SOURCES})
  target_include_directories(once_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
  target_link_libraries(once_${name} PUBLIC ${LAYER_USES})
  # When all of its sources are known: a folder below may add some.
  cmake_language(EVAL CODE "cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL once_unity once_${name})")
endfunction()
