# Installs the library into a temporary prefix, builds the consumer against it in both ways, and runs it.
#   cmake -D BUILD=… -D SOURCE=… -D COMPILER=… -D FLAGS=… -D LINKER_FLAGS=… -P consumer_test.cmake
set(work ${BUILD}/consumer)
file(REMOVE_RECURSE ${work})

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --component library --prefix ${work}/first)
# A package is built in one place and unpacked in another.
file(RENAME ${work}/first ${work}/prefix)

file(GLOB_RECURSE headers ${work}/prefix/include/*)
foreach(header ${headers})
  file(READ ${header} text)
  if(text MATCHES "#include (\"|<(boost|fmt|openssl|curl|base|core|store)/)")
    message(FATAL_ERROR "${header} shows what is ours: ${CMAKE_MATCH_0}")
  endif()
endforeach()

run(${CMAKE_COMMAND} -S ${SOURCE} -B ${work}/build -G Ninja -D CMAKE_CXX_COMPILER=${COMPILER}
  -D CMAKE_PREFIX_PATH=${work}/prefix "-DCMAKE_CXX_FLAGS=${FLAGS}" "-DCMAKE_EXE_LINKER_FLAGS=${LINKER_FLAGS}")
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/consumer)
run(${work}/build/transaction)
run(${work}/build/sender)

file(GLOB_RECURSE package ${work}/prefix/*/once.pc)
get_filename_component(folder ${package} DIRECTORY)
execute_process(COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${folder} pkg-config --cflags --libs once
  OUTPUT_VARIABLE arguments OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(arguments UNIX_COMMAND "${FLAGS} ${SOURCE}/main.cpp -o ${work}/by_pkg_config ${arguments} ${LINKER_FLAGS}")
run(${COMPILER} -std=c++23 ${arguments})
run(${work}/by_pkg_config)
